package process

import (
	"errors"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// group is the process group of a child. Its id is the child's process id, which the kernel may give away once the
// child was collected: the lock makes sure that nobody signals it after that.
type group struct {
	mu        sync.Mutex
	id        int
	collected bool
}

// signal sends sig to the whole group, unless the child was collected.
func (g *group) signal(sig syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.collected {
		_ = syscall.Kill(-g.id, sig)
	}
}

// wait blocks until the child has ended, ends what it started itself and left in its group, and collects its exit.
func (g *group) wait(cmd *exec.Cmd) error {
	for {
		// Peek only: while the child is a zombie its id is ours.
		err := unix.Waitid(unix.P_PID, g.id, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = syscall.Kill(-g.id, syscall.SIGKILL)
	err := cmd.Wait()
	g.collected = true
	return err
}
