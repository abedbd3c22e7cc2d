package logfile

import (
	"fmt"
	"io"
	"os"
)

// Pipe returns the write end of a pipe for a child's output and copies the output to w. It closes the channel done when
// all holders of the write end have closed that end. The caller closes its own copy after it has started its last
// child.
func Pipe(w io.Writer) (in *os.File, done <-chan struct{}, err error) {
	r, in, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("making a pipe for log output: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer r.Close()
		buf := make([]byte, 4<<10) // small: each unit of each host has such a buffer
		for {
			n, err := r.Read(buf)
			if n > 0 {
				w.Write(buf[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	return in, ended, nil
}
