package scope

import (
	"context"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestNoUserManager(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	err := start(t.Context(), socket(), "capstan-test.scope")
	if err == nil || !strings.Contains(err.Error(), "systemd/private") {
		t.Errorf("without a user manager: %v", err)
	}
}

// TestLingering checks that only users whose systemd outlives their sessions get a scope.
func TestLingering(t *testing.T) {
	who, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := lingers(dir); err == nil || !strings.Contains(err.Error(), "loginctl enable-linger") {
		t.Errorf("a user without lingering: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, who.Username), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := lingers(dir); err != nil {
		t.Errorf("a user with lingering: %v", err)
	}
}

// TestASilentUserManager checks that a user manager that accepts connections and never answers does not delay the dock.
func TestASilentUserManager(t *testing.T) {
	path := filepath.Join(t.TempDir(), "private")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	failed := make(chan error, 1)
	go func() { failed <- start(ctx, path, "capstan-test.scope") }()
	select {
	case err := <-failed:
		if err == nil {
			t.Error("start succeeded without an answer")
		}
	case <-time.After(10 * time.Second):
		t.Error("start does not return")
	}
}
