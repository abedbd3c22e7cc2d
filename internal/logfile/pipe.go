package logfile

import (
	"fmt"
	"io"
	"os"
)

// Pipe returns the write end of a pipe for a child's output, and copies what arrives to w until all holders of the
// write end have closed it; then done is closed. The caller closes its own copy once its children are started for the
// last time.
func Pipe(w io.Writer) (in *os.File, done <-chan struct{}, err error) {
	r, in, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("making a pipe for log output: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer r.Close()
		buf := make([]byte, 4<<10) // small: there is one for each unit of each host
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
