package local

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/hint"
)

func TestBootstrapLog(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "dock", "hosts", "host-01", "root", "var", "log", "capstan")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bootstrap.log"), []byte("kubeadm init\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := BootstrapLog(home, "host-01")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if data, err := io.ReadAll(log); err != nil || string(data) != "kubeadm init\n" {
		t.Errorf("the log contains %q, error %v", data, err)
	}
	for host, want := range map[string]string{
		"host-02": "no bootstrap output", "..": "is not the name", ".": "is not the name", "../host-01": "is not the name",
		"": "is not the name",
	} {
		if _, err := BootstrapLog(home, host); err == nil || !strings.Contains(err.Error(), want) || hint.Of(err) == "" {
			t.Errorf("host %q: error %v, want one with %q and a hint", host, err, want)
		}
	}
}

// TestBootstrapLogStaysBelowTheHost: whatever a host puts in the place of its log, opening the log reads no file of the
// machine and never blocks.
func TestBootstrapLogStaysBelowTheHost(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "shadow")
	if err := os.WriteFile(secret, []byte("root:secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, attack := range map[string]func(log string) error{
		"an absolute link": func(log string) error { return os.Symlink(secret, log) },
		"a relative link": func(log string) error {
			to, err := filepath.Rel(filepath.Dir(log), secret)
			return errors.Join(err, os.Symlink(to, log))
		},
		"a link in place of a directory": func(log string) error {
			return errors.Join(os.Remove(filepath.Dir(log)),
				os.Rename(secret, filepath.Join(filepath.Dir(secret), "bootstrap.log")),
				os.Symlink(filepath.Dir(secret), filepath.Dir(log)))
		},
		"a pipe":      func(log string) error { return syscall.Mkfifo(log, 0o600) },
		"a directory": func(log string) error { return os.Mkdir(log, 0o700) },
		"a socket": func(log string) error {
			fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
			return errors.Join(err, syscall.Bind(fd, &syscall.SockaddrUnix{Name: log}), syscall.Close(fd))
		},
	} {
		t.Run(name, func(t *testing.T) {
			home, err := os.MkdirTemp("", "h") // short, because the path of a socket has a limit
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(home)
			log := filepath.Join(home, "dock", "hosts", "host-01", "root", "var", "log", "capstan", "bootstrap.log")
			if err := errors.Join(os.MkdirAll(filepath.Dir(log), 0o700), attack(log)); err != nil {
				t.Fatal(err)
			}
			opened := make(chan error, 1)
			go func() {
				file, err := BootstrapLog(home, "host-01")
				if err == nil {
					file.Close()
				}
				opened <- err
			}()
			select {
			case err := <-opened:
				if err == nil {
					t.Error("the log was opened")
				}
			case <-time.After(20 * time.Second):
				t.Fatal("opening the log blocks")
			}
		})
	}
}

func TestHostsNeedADock(t *testing.T) {
	home := t.TempDir()
	err := RebootHost(t.Context(), home, "host-01")
	if !errors.Is(err, ErrNotRunning) || err.Error() != "rebooting host host-01: no local hosts run" ||
		hint.Of(err) != "run: capstan up" {
		t.Errorf("error %v, with the hint %q", err, hint.Of(err))
	}
	if _, err := RunningHosts(t.Context(), home); !errors.Is(err, ErrNotRunning) {
		t.Errorf("error %v", err)
	}
}

// TestHostsOfADock: a dock is running but has no such host.
func TestHostsOfADock(t *testing.T) {
	w := newWorld(t, steady)
	w.register(inPhase(infrav1.HostOff)...)
	if _, err := w.up(limit(t), UpOptions{Hosts: 1}); err != nil {
		t.Fatal(err)
	}
	err := RebootHost(limit(t), w.Home, "host-09")
	if err == nil || err.Error() != `no local host "host-09" is running` || hint.Of(err) == "" {
		t.Errorf("error %v, with the hint %q", err, hint.Of(err))
	}
	if names, err := RunningHosts(limit(t), w.Home); err != nil || len(names) != 0 {
		t.Errorf("the hosts that are powered on are %q, error %v", names, err)
	}
}
