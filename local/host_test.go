package local

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
		t.Errorf("it holds %q, %v", data, err)
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

// TestHostsOfADock: a dock runs, and has no such host.
func TestHostsOfADock(t *testing.T) {
	w := newWorld(t, steady)
	w.register(inPhase(infrav1.HostOff)...)
	if _, err := w.up(limit(t), UpOptions{Hosts: 1}); err != nil {
		t.Fatal(err)
	}
	err := RebootHost(limit(t), w.Home, "host-09")
	if err == nil || err.Error() != `there is no local host "host-09" that is on` || hint.Of(err) == "" {
		t.Errorf("error %v, with the hint %q", err, hint.Of(err))
	}
	if names, err := RunningHosts(limit(t), w.Home); err != nil || len(names) != 0 {
		t.Errorf("hosts that are on: %q, %v", names, err)
	}
}
