package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/home"
)

// TestAllowBinaries: an installation waits for other ones; one that fails does not delay others.
func TestAllowBinaries(t *testing.T) {
	dir := home.Dir(t.TempDir())
	if err := os.MkdirAll(dir.Plane(), 0o700); err != nil {
		t.Fatal(err)
	}
	var notes []string
	told := func() {}
	progress := func(e Event) {
		notes = append(notes, e.Text)
		told()
	}
	allow := func(ctx context.Context, program string) (func(), error) {
		return AllowBinaries(ctx, string(dir), map[string]string{"docker": program}, progress)
	}
	if _, err := allow(t.Context(), "not absolute"); err == nil || len(notes) > 0 {
		t.Errorf("a path that is not absolute was accepted: error %v, notes %q", err, notes)
	}
	done, err := allow(t.Context(), "/opt/first")
	if err != nil {
		t.Fatal(err)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "Provider docker runs as a process of the plane, /opt/first.") {
		t.Errorf("the notes are %q", notes)
	}
	short, cancel := context.WithTimeout(t.Context(), 3*lockPause)
	defer cancel()
	_, err = allow(short, "/opt/second")
	if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "--provider-binary is still at work") {
		t.Errorf("a second installation does not wait: %v", err)
	}
	told = func() { // called when the second installation waits
		done()
		told = func() {}
	}
	second, err := allow(t.Context(), "/opt/second")
	if err != nil {
		t.Fatal(err)
	}
	second()
	text, err := os.ReadFile(filepath.Join(dir.Plane(), "provider-binaries"))
	if err != nil || string(text) != "/opt/first\n/opt/second\n" {
		t.Errorf("the allowed programs are %q, error %v", text, err)
	}
}
