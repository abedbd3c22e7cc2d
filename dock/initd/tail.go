//go:build linux

package initd

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// tail returns the last n lines of a log without the final newline, continuing in the rotated log if needed; n < 0
// returns all lines. It reads at most maxTail bytes of each file.
func tail(path string, n int) (string, error) {
	now, err := readEnd(path)
	if err != nil {
		return "", err
	}
	if n < 0 || bytes.Count(now, []byte{'\n'}) < n {
		if before, err := readEnd(path + ".1"); err == nil {
			now = append(before, now...)
		}
	}
	if n < 0 {
		n = len(now)
	}
	text := bytes.TrimSuffix(now, []byte{'\n'})
	start := len(text)
	for i := 0; i < n && start > 0; i++ {
		start = max(bytes.LastIndexByte(text[:start], '\n'), 0)
	}
	return string(bytes.TrimPrefix(text[start:], []byte{'\n'})), nil
}

const maxTail = 2 << 20

func readEnd(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading a log: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > maxTail {
		if _, err := f.Seek(-maxTail, io.SeekEnd); err != nil {
			return nil, fmt.Errorf("reading the end of %s: %w", path, err)
		}
	}
	return io.ReadAll(io.LimitReader(f, maxTail))
}
