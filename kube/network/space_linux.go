package network

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Within calls f in the network namespace at a path, on a thread of its own. Sockets that f opens stay in that
// namespace.
func Within(path string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		back, err := enter(path)
		if err != nil {
			runtime.UnlockOSThread()
			done <- err
			return
		}
		err = f()
		if back() == nil {
			runtime.UnlockOSThread() // otherwise the thread exits with the goroutine
		}
		done <- err
	}()
	return <-done
}

// enter moves this thread into a namespace and returns a function that moves it back.
func enter(path string) (back func() error, err error) {
	open := func(path string) (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) }
	before, err := open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	if err != nil {
		return nil, fmt.Errorf("opening this thread's network namespace: %w", err)
	}
	fd, err := open(path)
	if err == nil {
		err = errors.Join(unix.Setns(fd, unix.CLONE_NEWNET), unix.Close(fd))
	}
	if err != nil {
		unix.Close(before)
		return nil, fmt.Errorf("entering the network namespace %s: %w", path, err)
	}
	return func() error { return errors.Join(unix.Setns(before, unix.CLONE_NEWNET), unix.Close(before)) }, nil
}
