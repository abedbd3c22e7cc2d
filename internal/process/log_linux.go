package process

import (
	"bytes"
	"os"
	"strings"
	"sync"
)

// lineLimit bounds one remembered line, in bytes.
const lineLimit = 400

// logFile is a file that is moved aside when it reaches its limit, and remembers its last lines.
type logFile struct {
	mu    sync.Mutex
	path  string // empty: only the last lines are kept
	file  *os.File
	size  int64
	limit int64

	last    [][]byte // ring of the last lines, oldest first
	partial []byte
}

// openLog opens path for appending; an empty path keeps the last lines alone.
func openLog(path string, limit int64) (*logFile, error) {
	l := &logFile{path: path, limit: limit}
	if path == "" {
		return l, nil
	}
	return l, l.open()
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write never fails: a full disk must not stop the child from working, only its log.
func (l *logFile) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remember(data)
	if l.file == nil {
		return len(data), nil
	}
	if l.size > 0 && l.size+int64(len(data)) > l.limit {
		l.rotate()
	}
	if l.file != nil {
		n, _ := l.file.Write(data)
		l.size += int64(n)
	}
	return len(data), nil
}

func (l *logFile) rotate() {
	l.file.Close()
	l.file = nil
	_ = os.Rename(l.path, l.path+".1")
	_ = l.open()
}

func (l *logFile) remember(data []byte) {
	for len(data) > 0 {
		line, rest, ended := bytes.Cut(data, []byte("\n"))
		if room := lineLimit - len(l.partial); room > 0 {
			l.partial = append(l.partial, line[:min(room, len(line))]...)
		}
		if ended {
			l.keep()
		}
		data = rest
	}
}

func (l *logFile) keep() {
	if len(bytes.TrimSpace(l.partial)) > 0 {
		l.last = append(l.last, bytes.Clone(l.partial))
		if len(l.last) > tailLines {
			l.last = l.last[1:]
		}
	}
	l.partial = l.partial[:0]
}

// tail returns the last lines, oldest first.
func (l *logFile) tail() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keep()
	lines := make([]string, 0, len(l.last))
	for _, line := range l.last {
		lines = append(lines, strings.TrimRight(string(line), "\r "))
	}
	return lines
}

// hint says where to read on, with the last lines.
func (l *logFile) hint() string {
	lines := l.tail()
	if len(lines) == 0 {
		return ""
	}
	hint := "; the last lines of its log"
	if l.path != "" {
		hint += " " + l.path
	}
	return hint + ":\n\t" + strings.Join(lines, "\n\t")
}

func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
