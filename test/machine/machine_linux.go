package machine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
)

// bootLimit bounds the time from the start of a machine until all of its units have started.
const bootLimit = 2 * time.Minute

// Machine is a computer that runs, or ran.
type Machine struct {
	Name    string
	Address string

	lan     *LAN
	outline outline
	port    string // the end of its cable at the bridge
	group   *cgroup
	cmd     *exec.Cmd
	ended   chan struct{}
	pid     int // of its first process
}

// Start starts a machine at an address of the LAN, from a root that Root made, and returns when it has booted. What it
// keeps is in dir, which must not be on an overlay file system.
func Start(ctx context.Context, lan *LAN, root, dir, name, address string) (*Machine, error) {
	m := &Machine{Name: name, Address: address, lan: lan, outline: outline{
		Name: name, Address: fmt.Sprintf("%s/%d", address, lan.bits), Gateway: lan.Gateway, Root: root,
		Dir: filepath.Join(dir, name),
	}}
	for _, part := range []string{"upper", "work", "root", "lib"} {
		if err := os.MkdirAll(m.outline.path(part), 0o755); err != nil {
			return nil, err
		}
	}
	return m, m.Boot(ctx)
}

// Boot starts a machine that was killed, with what it has kept.
func (m *Machine) Boot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootLimit)
	defer cancel()
	if err := m.launch(); err != nil {
		return errors.Join(fmt.Errorf("starting machine %s: %w", m.Name, err), m.Kill())
	}
	if err := m.booted(ctx); err != nil {
		return errors.Join(fmt.Errorf("machine %s: %w; its console:\n%s", m.Name, err, m.Console()), m.Kill())
	}
	return nil
}

// launch starts the process that becomes the machine's supervisor.
func (m *Machine) launch() (err error) {
	m.lan.next++
	m.port = fmt.Sprintf("port%d", m.lan.next)
	if m.group, err = newCgroup(fmt.Sprintf("machine-%d-%d", os.Getpid(), m.lan.next)); err != nil {
		return err
	}
	m.outline.Groups = m.group.all
	text, err := json.Marshal(&m.outline)
	if err != nil {
		return err
	}
	console, err := os.OpenFile(m.outline.path("console"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer console.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), machineVariable+"="+string(text))
	cmd.Stdout, cmd.Stderr = console, console
	// In a namespace of processes of its own, the supervisor takes the machine with it when it dies with the test.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC |
			syscall.CLONE_NEWPID,
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	m.cmd, m.ended = cmd, make(chan struct{})
	go func() { defer close(m.ended); _ = cmd.Wait() }()
	if err := m.group.add(cmd.Process.Pid); err != nil {
		return err
	}
	if err := m.lan.cable(m.port, cmd.Process.Pid); err != nil {
		return err
	}
	_, err = in.Write([]byte("\n"))
	return err
}

// booted waits until all units have started.
func (m *Machine) booted(ctx context.Context) error {
	for state := ""; ; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("it has not booted within %s (systemd says %q)", bootLimit, state)
		case <-m.ended:
			return errors.New("it stopped while it booted")
		case <-time.After(50 * time.Millisecond):
		}
		if m.pid = firstProcess(m.cmd.Process.Pid); m.pid == 0 {
			continue
		}
		out, _ := m.command(ctx, "systemctl is-system-running").Output()
		switch state = strings.TrimSpace(string(out)); state {
		case "running":
			return nil
		case "degraded":
			failed, err := m.Run(ctx, "systemctl --failed --no-legend; journalctl --no-pager -n 30")
			return fmt.Errorf("units have failed: %s %w", failed, err)
		}
	}
}

// firstProcess returns the child of a process that is the first of its namespace, or 0.
func firstProcess(parent int) int {
	files, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(data, fmt.Appendf(nil, "\nPPid:\t%d\n", parent)) {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "NSpid:" &&
				fields[len(fields)-1] == "1" {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				return pid
			}
		}
	}
	return 0
}

// command returns a command that runs a line in the machine's shell, as root.
func (m *Machine) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nsenter", "-t", strconv.Itoa(m.pid), "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w",
		"--", "/bin/sh", "-c", line)
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root",
		"LANG=C.UTF-8",
	}
	return cmd
}

// Run runs a line in the machine's shell, as root, and returns what it prints. An error has that, too.
func (m *Machine) Run(ctx context.Context, line string) (string, error) {
	out, err := m.command(ctx, line).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("on %s: %s: %w\n%s", m.Name, line, err, out)
	}
	return string(out), nil
}

// Console returns the end of what the machine has printed.
func (m *Machine) Console() string {
	data, err := os.ReadFile(m.outline.path("console"))
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-12_000):])
}

// Root returns where the machine's files are while it runs, seen from outside.
func (m *Machine) Root() string { return fmt.Sprintf("/proc/%d/root", m.pid) }

// Kill stops the machine as a power cut does, and leaves what it has kept.
func (m *Machine) Kill() error {
	if m.cmd != nil {
		_ = m.cmd.Process.Kill()
		select {
		case <-m.ended:
		case <-time.After(20 * time.Second):
			return fmt.Errorf("machine %s does not stop", m.Name)
		}
	}
	m.cmd, m.pid = nil, 0
	var err error
	if m.group != nil {
		err = m.group.remove()
	}
	if link, missing := netlink.LinkByName(m.port); missing == nil {
		err = errors.Join(err, netlink.LinkDel(link))
	}
	m.group = nil
	return err
}

// Remove kills the machine and removes what it has kept.
func (m *Machine) Remove() error {
	return errors.Join(m.Kill(), os.RemoveAll(m.outline.Dir))
}
