package local

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/capstan-dev/capstan/internal/hint"
)

func TestConnectNeedsAPlane(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	_, err := Connect(home)
	var none *NoPlaneError
	if !errors.As(err, &none) || none.Home != home || hint.Of(err) != "run: capstan up" {
		t.Errorf("Connect without a plane: got error %v with the hint %q", err, hint.Of(err))
	}
	if err := Down(t.Context(), DownOptions{Home: home}); !errors.As(err, &none) {
		t.Errorf("Down without a plane: got error %v, want a NoPlaneError", err)
	}
	if _, err := Connect(""); err == nil || hint.Of(err) == "" {
		t.Errorf("Connect without a home directory: got error %v, want one with a hint", err)
	}

	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "kubeconfig"), []byte("no kubeconfig: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Connect(home); err == nil || errors.As(err, &none) || hint.Of(err) == "" {
		t.Errorf("Connect with a broken kubeconfig: got error %v with the hint %q", err, hint.Of(err))
	}
}

func TestStatusWithoutADock(t *testing.T) {
	home := t.TempDir()
	got, err := Status(t.Context(), Place{Home: home})
	if err != nil || got.Home != home || got.Dock != PhaseStopped || got.Plane != PhaseStopped {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := Status(t.Context(), Place{}); err == nil {
		t.Error("Status without a home directory returned no error")
	}
}
