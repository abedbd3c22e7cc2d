package handover

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/capstan-dev/capstan/agent/journal"
)

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return string(data)
}

// The hand-over reads journals while the worker writes them, so it must not change them.
func TestWhatIsCarriedIsOnlyLookedAt(t *testing.T) {
	base := filepath.Join(t.TempDir(), "journal")
	j, err := journal.Open(base, "capstan://default/h1/0a1b2c3d")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.Start("write_files", ""); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(j.Dir(), "steps.jsonl")
	half := read(t, path) + `{"event":"fin`
	if err := os.WriteFile(path, []byte(half), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(base, "begun"), 0o700); err != nil {
		t.Fatal(err)
	}
	all, err := carriedMachines(base)
	if err != nil || !slices.Equal(all, []carried{{claim: j.Claim()}}) {
		t.Errorf("got %+v, %v", all, err)
	}
	if _, err := os.Stat(filepath.Join(base, "begun")); err != nil || read(t, path) != half {
		t.Errorf("the journals were changed: %v", err)
	}
}
