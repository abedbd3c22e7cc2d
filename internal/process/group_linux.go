package process

import (
	"errors"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// group is the process group of a child. Its id is the child's process id, which the kernel may reuse once the child is
// reaped. The lock ensures that nobody signals it after that.
type group struct {
	mu        sync.Mutex
	id        int
	collected bool
}

// signal sends sig to the whole group, unless the child was reaped.
func (g *group) signal(sig syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.collected {
		_ = syscall.Kill(-g.id, sig)
	}
}

// wait blocks until the child exits, kills what remains in its group, and reaps it.
func (g *group) wait(cmd *exec.Cmd) error {
	for {
		// Do not reap yet: while the child is a zombie, nobody else can get its id.
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
