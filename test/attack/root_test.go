//go:build linux

package attack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/dock"
)

// scriptLimit limits the time of one script on a host.
const scriptLimit = 30 * time.Second

// inHost runs a script as root on a host, and returns what it printed and its exit code.
func (w *world) inHost(ctx context.Context, host, script string) (string, int, error) {
	h, ok := w.hosts[w.vars[host]]
	if !ok {
		return "", 0, fmt.Errorf("there is no host %s", w.vars[host])
	}
	return enter(ctx, h, w.fill(script))
}

// enter runs a script in a host's namespaces.
func enter(ctx context.Context, h dock.Host, script string) (string, int, error) {
	args := []string{"--target", strconv.Itoa(h.PID), "--user", "--mount", "--uts", "--ipc", "--net", "--pid", "--root",
		"--wd"}
	if os.Geteuid() != 0 {
		args = append([]string{"--preserve-credentials"}, args...) // with one id, a host has no user to switch to
	}
	ctx, cancel := context.WithTimeout(ctx, scriptLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", append(args, "--", "/bin/bash", "-c", script)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/capstan/bin"}
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", 0, fmt.Errorf("%s: %w", script, err)
	}
	return string(out), cmd.ProcessState.ExitCode(), nil
}

// script returns an attempt of root on the host.
func script(boundary, mechanism, try, control string) attempt {
	return attempt{
		boundary: boundary, who: hostRoot, mechanism: mechanism,
		try: func(ctx context.Context, w *world) error {
			out, code, err := w.inHost(ctx, "host", try)
			if err != nil || code == 0 {
				return err
			}
			return refused("exit %d: %s", code, message(out))
		},
		control: func(ctx context.Context, w *world) error {
			host, control := "host", control
			if control == "@other" {
				host, control = "other", try
			}
			out, code, err := w.inHost(ctx, host, control)
			if err != nil || code == 0 {
				return err
			}
			return fmt.Errorf("%s: exit %d: %s", control, code, message(out))
		},
	}
}

// rootOnHost returns the attempts of package dock's own tests. Those tests make them on a host without a machine; here,
// root makes them on a host with a machine.
func rootOnHost() []attempt {
	const boundary = "a host is not the machine"
	controls := named("../../dock/testdata/controls.txt")
	var list []attempt
	for name, try := range named("../../dock/testdata/attempts.txt") {
		control := controls["programs of the host"]
		for word, better := range map[string]string{
			"mount": "own mounts", "kill": "own processes", "chown": "own files", "touch": "own files", "ip link": "own network",
		} {
			if strings.HasPrefix(try, word) || strings.Contains(try, "&& "+word) {
				control = controls[better]
			}
		}
		list = append(list, script(boundary, name, try, control))
	}
	return list
}

// named reads a file of lines "NAME: SCRIPT".
func named(path string) map[string]string {
	all := map[string]string{}
	for _, line := range lines(path) {
		name, script, ok := strings.Cut(line, ": ")
		if !ok {
			panic(path + ": this line has no name: " + line)
		}
		all[name] = script
	}
	return all
}

// lines returns the lines of a file without comments.
func lines(path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	var list []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			list = append(list, line)
		}
	}
	return list
}

// fromHostNetwork returns the attempts of testdata/host.txt. They target the network, other hosts, and Capstan's home
// directory.
func fromHostNetwork() []attempt {
	var list []attempt
	for _, line := range lines("testdata/host.txt") {
		parts := strings.Split(strings.ReplaceAll(line, `\|`, "\x00"), " | ")
		if len(parts) != 4 {
			panic("testdata/host.txt: this line does not have four parts: " + line)
		}
		for i := range parts {
			parts[i] = strings.ReplaceAll(parts[i], "\x00", "|")
		}
		list = append(list, script(parts[0], parts[1], parts[2], parts[3]))
	}
	return list
}

// leaveTraces creates things on the other host that root on this host must not find.
func (w *world) leaveTraces(ctx context.Context) error {
	out, code, err := w.inHost(ctx, "other", `touch /dev/shm/capstan-attack
python3 -c 'import ctypes
l = ctypes.CDLL(None)
l.shmget(0xc0ffee, 64, 0o1666)
l.syscall(248, b"user", b"capstan-attack", b"x", 1, -4)'
python3 -c 'import socket, time
s = socket.socket(socket.AF_UNIX); s.bind("\0capstan-attack"); s.listen()
time.sleep(600)' >/dev/null 2>&1 </dev/null &`)
	if err == nil && code != 0 {
		err = fmt.Errorf("leaving traces: exit %d: %s", code, out)
	}
	return err
}
