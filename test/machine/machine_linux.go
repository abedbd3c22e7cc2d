package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
)

// bootLimit limits the time until all units of a machine that shares this computer's kernel have started.
const bootLimit = 2 * time.Minute

// Machine is a computer, running or stopped.
type Machine struct {
	Name    string
	Address string

	lan   *LAN
	dir   string // the directory with its data
	body  body
	limit time.Duration // of a boot
	port  string        // the bridge's end of its cable
	cmd   *exec.Cmd
	ended chan struct{}
}

// body is the part that differs between kinds of machines.
type body interface {
	// launch starts the process with which the machine lives and dies, and connects the machine to the LAN. If it
	// returns a command together with an error, the command may have been started.
	launch(port string, console *os.File) (*exec.Cmd, error)
	// reachable reports whether the machine may already accept commands.
	reachable(pid int) bool
	// command returns a command that runs a line in the machine's shell, as root.
	command(ctx context.Context, line string) *exec.Cmd
	// release removes everything that the process has left, except the machine's data.
	release() error
}

// Start starts a machine at an address of the LAN, from a root of [Root], and returns when it has booted. The machine's
// data is in dir, which must not be on an overlay file system.
func Start(ctx context.Context, lan *LAN, root, dir, name, address string) (*Machine, error) {
	dir = filepath.Join(dir, name)
	for _, part := range []string{"upper", "work", "root", "lib"} {
		if err := os.MkdirAll(filepath.Join(dir, part), 0o755); err != nil {
			return nil, err
		}
	}
	m := &Machine{Name: name, Address: address, lan: lan, dir: dir, limit: bootLimit, body: &container{
		lan: lan,
		outline: outline{
			Name: name, Address: fmt.Sprintf("%s/%d", address, lan.bits), Gateway: lan.Gateway, Root: root, Dir: dir,
		},
	}}
	return m, m.Boot(ctx)
}

// Boot starts a machine that was killed, with its data.
func (m *Machine) Boot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.limit)
	defer cancel()
	if err := m.launch(); err != nil {
		return errors.Join(fmt.Errorf("starting machine %s: %w", m.Name, err), m.Kill())
	}
	if err := m.booted(ctx); err != nil {
		return errors.Join(fmt.Errorf("machine %s: %w; its console:\n%s", m.Name, err, m.Console()), m.Kill())
	}
	return nil
}

// launch starts the machine's process.
func (m *Machine) launch() error {
	m.lan.next++
	m.port = fmt.Sprintf("port%d", m.lan.next)
	console, err := os.OpenFile(m.console(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer console.Close()
	cmd, err := m.body.launch(m.port, console)
	if cmd != nil && cmd.Process != nil {
		ended := make(chan struct{})
		go func() { defer close(ended); _ = cmd.Wait() }()
		m.cmd, m.ended = cmd, ended
	}
	return err
}

// booted waits until all units have started.
func (m *Machine) booted(ctx context.Context) error {
	for state := ""; ; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("it has not booted within %s (systemd says %q)", m.limit, state)
		case <-m.ended:
			return errors.New("it stopped while it booted")
		case <-time.After(50 * time.Millisecond):
		}
		if !m.body.reachable(m.cmd.Process.Pid) {
			continue
		}
		out, _ := m.body.command(ctx, "systemctl is-system-running").Output()
		switch state = strings.TrimSpace(string(out)); state {
		case "running":
			return nil
		case "degraded":
			failed, err := m.Run(ctx, "systemctl --failed --no-legend; journalctl --no-pager -n 30")
			return fmt.Errorf("units have failed: %s %w", failed, err)
		}
	}
}

// Run runs a line in the machine's shell, as root, and returns its output. An error contains the output, too.
func (m *Machine) Run(ctx context.Context, line string) (string, error) {
	out, err := m.body.command(ctx, line).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("on %s: %s: %w\n%s", m.Name, line, err, out)
	}
	return string(out), nil
}

// Write writes a file on the machine that only root can read.
func (m *Machine) Write(ctx context.Context, path string, from io.Reader) error {
	cmd := m.body.command(ctx, "umask 077; cat > '"+path+"'")
	cmd.Stdin = from
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("on %s: writing %s: %w\n%s", m.Name, path, err, out)
	}
	return nil
}

func (m *Machine) console() string { return filepath.Join(m.dir, "console") }

// Console returns the last part of the machine's console output.
func (m *Machine) Console() string {
	data, err := os.ReadFile(m.console())
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-12_000):])
}

// Root returns the path, outside of the machine, of the files of a running machine that Start started.
func (m *Machine) Root() string { return fmt.Sprintf("/proc/%d/root", m.body.(*container).pid) }

// Kill stops the machine like a power cut, and leaves its data.
func (m *Machine) Kill() error {
	if m.cmd != nil {
		_ = m.cmd.Process.Kill()
		select {
		case <-m.ended:
		case <-time.After(20 * time.Second):
			return fmt.Errorf("machine %s does not stop", m.Name)
		}
	}
	m.cmd = nil
	err := m.body.release()
	if link, missing := netlink.LinkByName(m.port); missing == nil {
		err = errors.Join(err, netlink.LinkDel(link))
	}
	return err
}

// Remove kills the machine and removes its data.
func (m *Machine) Remove() error {
	return errors.Join(m.Kill(), os.RemoveAll(m.dir))
}
