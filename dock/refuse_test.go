//go:build linux

package dock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/dock"
)

func TestAFullDisk(t *testing.T) {
	if os.Getenv("FULL_DISK") == "" {
		// A small disk is a mount, which needs a mount namespace.
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestAFullDisk$", "-test.v")
		cmd.Env = append(os.Environ(), "FULL_DISK=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
		if os.Geteuid() != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	if err := unix.Mount("tmpfs", home, "tmpfs", 0, "size=2m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(home, unix.MNT_DETACH) })
	o := options(home)
	o.MinFree = 1 << 30
	_, err := dock.Start(short(t), o)
	var p *dock.Problem
	if !errors.As(err, &p) || !strings.Contains(err.Error(), "free space") {
		t.Errorf("start on a small disk: %v", err)
	}
	if entries, _ := os.ReadDir(home); len(entries) > 0 {
		t.Errorf("the refused start left something: %v", entries)
	}
	c := start(t, home)
	ensure(t, c, dock.HostSpec{Name: "host-1"})
	filler := filepath.Join(home, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	state, _ := os.ReadFile(filepath.Join(home, "dock/state.json"))
	_, err = c.EnsureHost(short(t), dock.HostSpec{Name: "host-2"})
	if dock.CodeOf(err) != dock.CodeNoSpace || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("a host on a full disk: %v", err)
	}
	if _, err := c.EnsureBalancer(short(t), "lb"); dock.CodeOf(err) != dock.CodeNoSpace {
		t.Errorf("a balancer on a full disk: %v", err)
	}
	if _, err := c.EnsureRelay(short(t), "r", "10.231.0.1:1"); dock.CodeOf(err) != dock.CodeNoSpace {
		t.Errorf("a relay on a full disk: %v", err)
	}
	if _, err := c.EnsureUnit(short(t), dock.Unit{
		Name: "u", Argv: []string{"/bin/true"},
	}); dock.CodeOf(err) != dock.CodeNoSpace {
		t.Errorf("a unit on a full disk: %v", err)
	}
	if now, _ := os.ReadFile(filepath.Join(home, "dock/state.json")); string(now) != string(state) || !json.Valid(now) {
		t.Errorf("the state has changed to %s", now)
	}
	if s, err := c.Status(short(t)); err != nil || len(s.Hosts) != 1 || len(s.Balancers)+len(s.Relays)+len(s.Units) != 0 ||
		s.Hosts[0].State != dock.HostRunning {
		t.Errorf("status is %+v, %v", s, err)
	}
	// Deleting must work on a full disk.
	if err := c.DeleteHost(short(t), "host-1"); err != nil && dock.CodeOf(err) != dock.CodeNoSpace {
		t.Errorf("deleting on a full disk: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	ensure(t, c, dock.HostSpec{Name: "host-2"})
	eventually(t, "the deleted host is gone", func() bool { return hostOf(t, c, "host-1").Name == "" })
}

func TestStartTellsWhyItFails(t *testing.T) {
	home := t.TempDir()
	if err := os.MkdirAll(dock.Dir(home), 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dock.Dir(home), "state.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := dock.Start(short(t), options(home))
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("start with a damaged state: %v", err)
	}
	for name, o := range map[string]dock.Options{
		"relative home":   {Home: "x", BinDir: bin},
		"missing program": {Home: home, BinDir: "/no/such/dir"},
	} {
		if _, err := dock.Start(short(t), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := dock.Start(ctx, options(t.TempDir())); !errors.Is(err, context.Canceled) {
		t.Errorf("start with a context that has ended: %v", err)
	}
	if _, err := dock.Connect(t.TempDir()).Status(short(t)); !errors.Is(err, dock.ErrNotRunning) {
		t.Errorf("status without a dock: %v", err)
	}
}

func TestADockWithOtherBinariesIsNotTakenForOurs(t *testing.T) {
	home := t.TempDir()
	c := start(t, home)
	before, err := c.Status(short(t))
	if err != nil {
		t.Fatal(err)
	}
	other := options(home)
	other.BinDir, other.Binary = t.TempDir(), filepath.Join(bin, "capstan-dock")
	var refused *dock.BinDirError
	if _, err := dock.Start(short(t), other); !errors.As(err, &refused) || refused.Has != bin ||
		refused.Want != other.BinDir {
		t.Errorf("error is %v", err)
	}
	if err := dock.Accept(short(t), other); !errors.As(err, &refused) || refused.Has != bin {
		t.Errorf("a dock with other binaries is accepted: %v", err)
	}
	if err := errors.Join(dock.Accept(short(t), options(home)), dock.Accept(short(t), options(t.TempDir()))); err != nil {
		t.Errorf("Accept refuses our own dock, or a home directory without a dock: %v", err)
	}
	if now, err := c.Status(short(t)); err != nil || now.Instance != before.Instance {
		t.Errorf("the dock is %+v, %v; was %+v", now, err, before)
	}
	// A link to the directory counts as the same directory.
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(bin, link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{link, bin + "/"} {
		o := options(home)
		o.BinDir = dir
		again, err := dock.Start(short(t), o)
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		again.Close()
	}
}

func TestALongHomeDirectory(t *testing.T) {
	home := filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	c := start(t, home)
	ensure(t, c, dock.HostSpec{Name: "host-1"})
	if c.Shutdown(short(t)) != nil {
		t.Error("a dock in a long home directory can't be shut down")
	}
	start(t, home)
}

func TestWhatTheKernelForbidsIsFoundOutBeforeAnythingIsMade(t *testing.T) {
	for _, program := range []string{"unshare", "setpriv"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s on this machine to take rights away with", program)
		}
	}
	for setting, take := range map[string]string{
		"max_net_namespaces":  "",
		"max_user_namespaces": "setpriv --inh-caps=-all --bounding-set=-all",
	} {
		home := filepath.Join(t.TempDir(), "home")
		o := options(home)
		o.Binary = filepath.Join(t.TempDir(), "capstan-dock")
		script := fmt.Sprintf("#!/bin/sh\nexec unshare --user --map-root-user sh -c 'echo 0 > /proc/sys/user/%s; exec %s "+
			"%s \"$@\"' sh \"$@\"\n",
			setting, take, filepath.Join(bin, "capstan-dock"))
		if err := os.WriteFile(o.Binary, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := dock.Start(short(t), o)
		var p *dock.Problem
		if !errors.As(err, &p) || p.Setting != "user."+setting || p.Have != "0" ||
			!strings.Contains(err.Error(), "sudo sysctl -w user."+setting+"=") {
			t.Errorf("%s: error is %v", setting, err)
		}
		if _, err := os.Lstat(home); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the refused start left something: %v", setting, err)
		}
	}
}
