// Package regular reads files that somebody else may have put there. It does not block on pipes, opens no devices and
// limits how much it reads.
package regular

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

var (
	// ErrKind reports that a file is not a regular file.
	ErrKind = errors.New("it is not a regular file")
	// ErrSize reports that a file is larger than the limit.
	ErrSize = errors.New("it is too large")
)

// Open opens a regular file with the flags of os.OpenFile. If it creates the file, the mode is 0600.
func Open(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("opening %s: %w", path, ErrKind)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Read returns the content of a regular file of at most limit bytes.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("reading %s: %w: it has more than %d bytes", path, ErrSize, limit)
	}
	return data, nil
}
