package command

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Log is a file that only root can read. When it reaches its limit it is moved to its name with ".1", so it holds at least the last half.
type Log struct {
	mu    sync.Mutex
	path  string
	limit int64
	f     *os.File
	size  int64
}

// OpenLog opens a log for appending; its two files have at most limit bytes each.
func OpenLog(path string, limit int64) (*Log, error) {
	l := &Log{path: path, limit: limit}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	return l, nil
}

func (l *Log) open() error {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	l.f, l.size = f, info.Size()
	return nil
}

// Write appends to the log. It never fails: a full disk must not end the command that writes.
func (l *Log) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil && l.size > 0 && l.size+int64(len(data)) > l.limit {
		l.f.Close()
		l.f = nil
		_ = os.Rename(l.path, l.path+".1")
		_ = l.open()
	}
	if l.f != nil {
		n, _ := l.f.Write(data)
		l.size += int64(n)
	}
	return len(data), nil
}

// Printf appends a line of the agent itself.
func (l *Log) Printf(format string, args ...any) {
	_, _ = fmt.Fprintf(l, "capstan: "+format+"\n", args...)
}

// Path returns the path of the log.
func (l *Log) Path() string { return l.path }

// Close closes the log. What is written afterwards is dropped.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}
