package machine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// container is the body of a machine that shares the kernel of this computer.
type container struct {
	lan     *LAN
	outline outline
	group   *cgroup
	pid     int // of its first process, as seen from outside
}

// launch starts the process that becomes the machine's supervisor.
func (c *container) launch(port string, console *os.File) (cmd *exec.Cmd, err error) {
	if c.group, err = newCgroup(fmt.Sprintf("machine-%d-%s", os.Getpid(), strings.TrimPrefix(port, "port"))); err != nil {
		return nil, err
	}
	c.outline.Groups = c.group.all
	text, err := json.Marshal(&c.outline)
	if err != nil {
		return nil, err
	}
	cmd = exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), machineVariable+"="+string(text))
	cmd.Stdout, cmd.Stderr = console, console
	// With its own PID namespace, the machine dies with the supervisor, which dies with the test.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC |
			syscall.CLONE_NEWPID,
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if err := c.group.add(cmd.Process.Pid); err != nil {
		return cmd, err
	}
	if err := c.lan.cable(port, cmd.Process.Pid); err != nil {
		return cmd, err
	}
	_, err = in.Write([]byte("\n"))
	return cmd, err
}

// reachable finds the machine's first process, and reports whether it exists.
func (c *container) reachable(supervisor int) bool {
	c.pid = firstProcess(supervisor)
	return c.pid != 0
}

// firstProcess returns the pid of the child of parent that is the first process of a PID namespace, or 0.
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

// command returns a command that runs in the machine's namespaces and groups.
func (c *container) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nsenter", "-t", strconv.Itoa(c.pid), "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w",
		"--", "/bin/sh", "-c", line)
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root",
		"LANG=C.UTF-8",
	}
	return cmd
}

// release removes the machine's groups, and kills the remaining processes.
func (c *container) release() error {
	c.pid = 0
	if c.group == nil {
		return nil
	}
	err := c.group.remove()
	c.group = nil
	return err
}
