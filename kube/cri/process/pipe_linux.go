package process

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// pipeSize is how much output a process can write while nobody reads; the kernel may allow less.
const pipeSize = 1 << 20

// Pipe opens the named pipe at path, making it if needed, as the output of a process: the process gets w, and r reads
// it.
//
// A process that holds w holds a reader too (the pipe is opened for both), so it gets no SIGPIPE when the server dies:
// its output waits in the pipe until a new server opens the same path.
func Pipe(path string) (r, w *os.File, err error) {
	if r, err = Reader(path); err != nil {
		return nil, nil, err
	}
	// Not os.OpenFile, which would make the end that the process gets non-blocking.
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		r.Close()
		return nil, nil, fmt.Errorf("opening the output pipe %s: %w", path, err)
	}
	unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, pipeSize) // as much as the user may have
	return r, os.NewFile(uintptr(fd), path), nil
}

// Reader opens the named pipe at path for reading, making it if needed. It reads to the end when the last process that
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
