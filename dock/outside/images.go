//go:build linux

package outside

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/internal/environ"
)

// imagesGrace is how long the image store may take to stop after SIGTERM.
const imagesGrace = 10 * time.Second

// keepImages keeps the image store running until ctx ends. The store is a child of the outer process because it needs
// the machine's network to reach registries. It has either all ids of the machine or only the user's own id. It never
// uses subordinate ids: it also runs without a dock, where it has none, and then it could not remove files that it had
// unpacked with them.
func keepImages(ctx context.Context, c Config) {
	if len(c.Images) == 0 {
		return
	}
	runtime.LockOSThread() // the child dies with this thread, which therefore stays locked
	pauses := backoff.Backoff{First: 200 * time.Millisecond, Max: 30 * time.Second, Free: 2}
	for ctx.Err() == nil {
		began := time.Now()
		cmd := exec.CommandContext(ctx, c.Images[0], c.Images[1:]...)
		cmd.Dir, cmd.Env = "/", environ.Network()
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = imagesGrace
		err := cmd.Run()
		if ctx.Err() != nil {
			return
		}
		delay := pauses.After(time.Since(began))
		c.Log.Printf("the image store ended (%v); it restarts in %v", err, delay)
		if backoff.Sleep(ctx, delay) != nil {
			return
		}
	}
}
