package upgrade

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func TestNewer(t *testing.T) {
	for name, c := range map[string]struct {
		offered, own string
		want         bool
	}{
		"a later version":               {"v1.2.0", "v1.1.9", true},
		"a release after rc":            {"v1.2.0", "v1.2.0-rc.1", true},
		"the same version":              {"v1.2.0", "v1.2.0", false},
		"an earlier version":            {"v1.1.9", "v1.2.0", false},
		"an agent built by hand":        {"v1.2.0", "dev", false},
		"a plane built by hand":         {"dev", "v1.2.0", false},
		"a plane without a version":     {"", "v1.2.0", false},
		"a version that is not numeric": {"v1.x", "v1.2.0", false},
	} {
		if got := newer(c.offered, c.own); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// TestDue: a broken program is tried twice in a row, then less and less often; another program is tried at once.
func TestDue(t *testing.T) {
	for name, c := range map[string]struct {
		record   record
		checksum string
		want     bool
	}{
		"nothing was tried":                             {record{}, "a", true},
		"another program failed":                        {record{"b", 9, noon}, "a", true},
		"tried once just now":                           {record{"a", 1, noon}, "a", true},
		"tried twice, the last time just now":           {record{"a", 2, noon}, "a", false},
		"tried twice, the last time an hour ago":        {record{"a", 2, noon.Add(-time.Hour)}, "a", true},
		"tried three times, the last time an hour ago":  {record{"a", 3, noon.Add(-time.Hour)}, "a", false},
		"tried nine times, the last time yesterday":     {record{"a", 9, noon.Add(-24 * time.Hour)}, "a", true},
		"tried nine times, the last time in the future": {record{"a", 9, noon.Add(48 * time.Hour)}, "a", true},
	} {
		if got := c.record.due(c.checksum, noon); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// TestTheRecordIsKept: trials of one program are counted; a damaged record counts as missing.
func TestTheRecordIsKept(t *testing.T) {
	dir := t.TempDir()
	for n, checksum := range []string{"a", "a", "b"} {
		if err := begin(dir, checksum, noon); err != nil {
			t.Fatal(err)
		}
		r, err := readRecord(dir)
		if want := (record{checksum, []int{1, 2, 1}[n], noon}); err != nil || r != want {
			t.Errorf("got %+v, %v, want %+v", r, err, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, recordFile), []byte(`{"tries": `), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := readRecord(dir); err != nil || r != (record{}) {
		t.Errorf("got %+v, %v", r, err)
	}
}
