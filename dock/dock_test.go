//go:build linux

package dock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/dock"
)

// bin holds capstan-dock, built once.
var bin string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "capstan-dock-test")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if built := os.Getenv("CAPSTAN_DOCK"); err == nil && built != "" { // so that a user without Go can run the tests
		var data []byte
		if data, err = os.ReadFile(built); err == nil {
			err = os.WriteFile(filepath.Join(dir, "capstan-dock"), data, 0o755)
		}
	} else if err == nil {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, "capstan-dock"),
			"github.com/capstan-dev/capstan/cmd/capstan-dock")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		build.Stderr = os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "building capstan-dock:", err)
		os.Exit(1)
	}
	bin = dir
	before := processes()
	code := m.Run()
	os.RemoveAll(dir)
	if left := processes(); len(left) > len(before) {
		fmt.Fprintf(os.Stderr, "processes are left: %v\n", left)
		code = 1
	}
	os.Exit(code)
}

// processes lists this test's processes that run capstan-dock.
func processes() []string {
	var out []string
	all, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, exe := range all {
		if target, err := os.Readlink(exe); err == nil && strings.HasPrefix(target, filepath.Join(bin, "capstan-dock")) &&
			bin != "" {
			out = append(out, exe)
		}
	}
	return out
}

func options(home string) dock.Options {
	return dock.Options{Home: home, BinDir: bin, MinFree: 1, InotifyInstances: 1}
}

// short bounds each call of a test.
func short(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// start starts a dock in home, and makes sure that nothing of it is left after the test.
func start(t testing.TB, home string) *dock.Client {
	t.Helper()
	c, err := dock.Start(short(t), options(home))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		if err := c.Shutdown(ctx); err != nil && !errors.Is(err, dock.ErrNotRunning) {
			t.Errorf("shutdown: %v\n%s", err, logOf(home))
		}
		c.Close()
		if left := nothingLeft(home); left != "" {
			t.Errorf("left after the end of the dock: %s", left)
		}
		if t.Failed() {
			t.Logf("dock.log:\n%s", logOf(home))
		}
	})
	return c
}

func logOf(home string) string {
	data, _ := os.ReadFile(filepath.Join(dock.Dir(home), "dock.log"))
	return string(data)
}

// nothingLeft waits until no process mentions home or has mounts of it, and returns what is left after 10 s.
func nothingLeft(home string) string {
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		left := leftover(home)
		if left == "" || time.Now().After(limit) {
			return left
		}
	}
}

func leftover(home string) string {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range all {
		if filepath.Base(p) == strconv.Itoa(os.Getpid()) {
			continue
		}
		cmdline, _ := os.ReadFile(p + "/cmdline")
		if bytes.Contains(cmdline, []byte(home)) {
			return p + " " + strings.ReplaceAll(string(cmdline), "\x00", " ")
		}
		mounts, _ := os.ReadFile(p + "/mountinfo")
		if strings.Contains(string(mounts), home+"/dock/") {
			return p + " has mounts of a host; it is " + strings.ReplaceAll(string(cmdline), "\x00", " ")
		}
	}
	return ""
}

func ensure(t testing.TB, c *dock.Client, spec dock.HostSpec) dock.Host {
	t.Helper()
	h, err := c.EnsureHost(short(t), spec)
	if err != nil {
		t.Fatal(err)
	}
	if h.State != dock.HostRunning {
		t.Fatalf("host is %+v", h)
	}
	return h
}

func hostOf(t testing.TB, c *dock.Client, name string) dock.Host {
	t.Helper()
	hosts, err := c.ListHosts(short(t))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(hosts, func(h dock.Host) bool { return h.Name == name })
	if i < 0 {
		return dock.Host{}
	}
	return hosts[i]
}

// in runs a shell command in a host.
func in(t testing.TB, h dock.Host, script string) (out string, code int) {
	t.Helper()
	args := []string{"--target", strconv.Itoa(h.PID), "--user", "--mount", "--uts", "--ipc", "--net", "--pid",
		"--root", "--wd"}
	if os.Geteuid() != 0 {
		args = append([]string{"--preserve-credentials"}, args...) // with one id, the process has these credentials already
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", append(args, "--", "/bin/sh", "-c", script)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/capstan/bin"}
	if os.Geteuid() != 0 {
		cmd.Path, _ = exec.LookPath("nsenter")
	}
	data, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("in host %s: %s: %v", h.Name, script, err)
	}
	return string(data), cmd.ProcessState.ExitCode()
}

// must is like in, for commands that must succeed.
func must(t testing.TB, h dock.Host, script string) string {
	t.Helper()
	out, code := in(t, h, script)
	if code != 0 {
		t.Fatalf("in host %s: %s: exit %d\n%s", h.Name, script, code, out)
	}
	return out
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// sleepd is a service that does nothing.
var sleepd = []dock.File{
	{Path: "/etc/systemd/system/sleepd.service", Mode: 0o644, Data: []byte(`[Unit]
Description=does nothing
[Service]
ExecStart=/bin/sh -c "echo $GREETING; exec sleep 1000"
Restart=always
RestartSec=20ms
[Install]
WantedBy=multi-user.target
`)},
}

func kill(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("killing %d: %v", pid, err)
	}
}
