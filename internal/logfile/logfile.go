// Package logfile writes log files of limited size. It keeps one full file as NAME.1.
package logfile

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// OldSuffix is appended to the path of the full file.
const OldSuffix = ".1"

// DefaultMax is the default size in bytes at which a file is rotated. Together with the full file, a log takes at most
// twice that.
const DefaultMax = 8 << 20

// File is an append-only log file of limited size. It is safe for concurrent use.
type File struct {
	path string
	max  int64

	mu     sync.Mutex
	file   *os.File // nil while it cannot be opened
	size   int64
	closed bool
}

// Open opens path for appending. It creates the file (0600) and its directory (0700) if they are missing. max is in
// bytes; 0 means DefaultMax.
func Open(path string, max int64) (*File, error) {
	if max <= 0 {
		max = DefaultMax
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of log %s: %w", path, err)
	}
	f := &File{path: path, max: max}
	if err := f.open(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) open() error {
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening log %s: %w", f.path, err)
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return fmt.Errorf("reading the size of log %s: %w", f.path, err)
	}
	f.file, f.size = file, info.Size()
	return nil
}

// Write appends p. It always reports success: a full disk loses log lines, but must not stop or block the process.
func (f *File) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.size > 0 && f.size+int64(len(p)) > f.max {
		f.rotate()
	}
	if f.closed || (f.file == nil && f.open() != nil) {
		return len(p), nil
	}
	n, _ := f.file.Write(p)
	f.size += int64(n)
	return len(p), nil
}

// rotate starts a new file. If it cannot rename the old file, it truncates that file to respect the limit.
func (f *File) rotate() {
	if err := os.Rename(f.path, f.path+OldSuffix); err != nil {
		if f.file != nil && f.file.Truncate(0) == nil {
			f.size = 0
		}
		return
	}
	f.file.Close()
	f.file, f.size = nil, 0
}

// Close closes the file. Later writes are lost.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file, f.size = nil, 0
	return err
}
