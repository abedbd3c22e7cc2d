package process

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// pipeSize is how much output a process can write while nobody reads it; the kernel may allow less.
const pipeSize = 1 << 20

// Pipe opens the named pipe at path, which it creates if missing, for the output of a process. The process gets w; r
// reads the output.
//
// A process that holds w also holds a reader, because the pipe is opened for both reading and writing. So it gets no
// SIGPIPE when the server dies: its output waits in the pipe until a new server opens the same path.
func Pipe(path string) (r, w *os.File, err error) {
	if r, err = Reader(path); err != nil {
		return nil, nil, err
	}
	// os.OpenFile would make the process's end non-blocking.
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		r.Close()
		return nil, nil, fmt.Errorf("opening the output pipe %s: %w", path, err)
	}
	unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, pipeSize) // up to the user's limit
	return r, os.NewFile(uintptr(fd), path), nil
}

// Reader opens the named pipe at path, which it creates if missing, for reading. Reads end when the last process that
// can write has ended.
func Reader(path string) (*os.File, error) {
	if err := unix.Mkfifo(path, 0o600); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("making the output pipe %s: %w", path, err)
	}
	r, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the output pipe %s: %w", path, err)
	}
	return r, nil
}
