//go:build linux

package dock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/internal/environ"
)

// Options describe a dock: its location and its programs.
type Options struct {
	// Home is Capstan's home directory, an absolute path. The dock uses HOME/dock.
	Home string
	// BinDir is the absolute path of the directory with Capstan's binaries. Hosts see it as /opt/capstan/bin, and its
	// subdirectory "bundles" as /opt/capstan/bundles.
	BinDir string
	// Binary is the path of capstan-dock; "" means BinDir/capstan-dock.
	Binary string

	// MinFree is the free space in bytes that the disk of Home must have; 0 means LeastDisk.
	MinFree uint64
	// InotifyInstances is the number of inotify instances that must be free for this user; 0 means 48, which suffices for
	// the plane, a control plane and two workers. A control plane takes 18, a worker 5.
	InotifyInstances int
}

// Limits of Start.
const (
	startLimit = time.Minute
	maxLog     = 4 << 20 // bytes of dock.log at which Start rotates it
)

// exitLocked is the exit status of `capstan-dock run` if another process holds the lock.
const exitLocked = 75

func (o Options) check() (Options, error) {
	if !filepath.IsAbs(o.Home) || !filepath.IsAbs(o.BinDir) {
		return o, fmt.Errorf("starting the dock: home directory %q and directory of binaries %q must be absolute paths",
			o.Home, o.BinDir)
	}
	if o.Binary == "" {
		o.Binary = filepath.Join(o.BinDir, "capstan-dock")
	}
	if o.MinFree == 0 {
		o.MinFree = LeastDisk
	}
	if o.InotifyInstances == 0 {
		o.InotifyInstances = 48
	}
	if _, err := os.Stat(o.Binary); err != nil {
		return o, fmt.Errorf("starting the dock: %w: build it with `make build`, or install all binaries into one directory",
			err)
	}
	return o, nil
}

// Start makes sure that a dock runs in the background, waits until it answers, and returns a client for it. A running
// dock is left as it is, and concurrent calls create only one. If the running dock uses binaries of another directory,
// the error wraps a *BinDirError. Start first checks the machine: if something is missing, it creates nothing, and the
// error wraps a *Problem for each thing. If the dock exits while it starts, the error contains the last lines of
// HOME/dock/dock.log. Hosts that should run start in the background; see Status.
func Start(ctx context.Context, o Options) (*Client, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	client := Connect(o.Home)
	if s, err := client.Status(ctx); err == nil {
		return o.accept(client, s)
	}
	if err := Preflight(ctx, o); err != nil {
		return nil, err
	}
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		s, err := startOne(ctx, o, client)
		if err == nil {
			return o.accept(client, s)
		}
		if !errors.Is(err, errLocked) {
			return nil, err
		}
		// Another dock is starting or about to stop.
		if backoff.Sleep(ctx, pause) != nil {
			return nil, fmt.Errorf("starting the dock: another process holds %s, but no dock answers: %w",
				filepath.Join(Dir(o.Home), "lock"), ctx.Err())
		}
		if s, err := client.Status(ctx); err == nil {
			return o.accept(client, s)
		}
	}
}

// Accept returns an error that wraps a *BinDirError if a dock runs with the binaries of another directory, which
// [Start] would refuse. It creates nothing.
func Accept(ctx context.Context, o Options) error {
	o, err := o.check()
	if err != nil {
		return err
	}
	client := Connect(o.Home)
	defer client.Close()
	s, err := client.Status(ctx)
	if err != nil {
		return nil // no dock runs, or one is starting or stopping: Start waits for it and checks again
	}
	_, err = o.accept(client, s)
	return err
}

// accept refuses a running dock with other binaries: the dock's hosts would keep using them, while the plane uses ours.
func (o Options) accept(client *Client, s Status) (*Client, error) {
	if sameDir(s.BinDir, o.BinDir) {
		return client, nil
	}
	client.Close()
	return nil, &BinDirError{Has: s.BinDir, Want: o.BinDir}
}

// sameDir reports whether two paths name the same directory. If a directory no longer exists, only equal names count as
// the same.
func sameDir(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

var errLocked = errors.New("another dock holds the lock")

// startOne starts a dock, waits until this or another dock answers, and returns its status.
func startOne(ctx context.Context, o Options, client *Client) (Status, error) {
	path := filepath.Join(Dir(o.Home), "dock.log")
	log, begin, err := openLog(path)
	if err != nil {
		return Status{}, err
	}
	defer log.Close()
	instance := rand.Text()
	cmd := exec.Command(o.Binary, "run", "--home", o.Home, "--bin-dir", o.BinDir, "--instance", instance)
	cmd.Dir, cmd.Env = "/", environ.Network() // PID 1 inside gets environ.Child() of this environment
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return Status{}, fmt.Errorf("starting the dock: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		if s, err := client.Status(ctx); err == nil {
			if s.Instance != instance {
				// Another dock was first. Ours must not wait for the lock: it would start unasked when the other stops.
				cmd.Process.Kill()
				<-ended
			}
			return s, nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case err := <-ended:
			timer.Stop()
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.ExitCode() == exitLocked {
				return Status{}, errLocked
			}
			return Status{}, fmt.Errorf("the dock exited while it started: %s (the full log is %s)", lastLines(path, begin),
				path)
		case <-ctx.Done():
			timer.Stop()
			return Status{}, fmt.Errorf("waiting for the dock to answer: %w; its log is %s", ctx.Err(), path)
		}
	}
}

func openLog(path string) (log *os.File, size int64, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, 0, fmt.Errorf("making the dock's directory: %w", err)
	}
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, 0, fmt.Errorf("putting the dock's log aside: %w", err)
		}
	}
	log, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("opening the dock's log: %w", err)
	}
	info, err := log.Stat()
	if err != nil {
		log.Close()
		return nil, 0, fmt.Errorf("opening the dock's log: %w", err)
	}
	return log, info.Size(), nil
}

// lastLines returns the end of what was written to the log after begin.
func lastLines(path string, begin int64) string {
	f, err := os.Open(path)
	if err != nil {
		return "no log: " + err.Error()
	}
	defer f.Close()
	const most = 4 << 10
	if info, err := f.Stat(); err == nil {
		begin = max(begin, info.Size()-most)
	}
	data, err := io.ReadAll(io.NewSectionReader(f, begin, most))
	if err != nil || len(data) == 0 {
		return "it logged nothing"
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "; ")
}

// waitUnlocked waits until no dock holds the lock of home.
func waitUnlocked(ctx context.Context, home string) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	f, err := os.Open(filepath.Join(Dir(home), "lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("waiting for the dock to exit: %w", err)
	}
	defer f.Close()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
		if err == nil {
			return nil // closing the file releases the lock
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("waiting for the dock to exit: %w", err)
		}
		if backoff.Sleep(ctx, pause) != nil {
			return fmt.Errorf("waiting for the dock to exit: %w; its log is %s", ctx.Err(),
				filepath.Join(Dir(home), "dock.log"))
		}
	}
}
