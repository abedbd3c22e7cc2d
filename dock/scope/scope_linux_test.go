package scope

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestNoUserManager(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	err := Enter(t.Context(), "test")
	if err == nil || !strings.Contains(err.Error(), "asking the user's systemd for a scope") ||
		!strings.Contains(err.Error(), "systemd/private") {
		t.Errorf("without a user manager: %v", err)
	}
}

// TestASilentUserManager checks that a peer that accepts connections and says nothing does not hold the dock up.
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
			t.Error("it has a scope")
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits for ever")
	}
}
