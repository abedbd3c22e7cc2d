package journal

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/agent/internal/testhost"
	"github.com/capstan-dev/capstan/internal/atomicfile"
)

// On a full disk, no earlier record is lost, no record is written partially, and a failed record has no effect. Once
// there is room again, everything continues, even with the journal that was open.
func TestAFullDisk(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		base := t.TempDir()
		must(t, unix.Mount("tmpfs", base, "tmpfs", 0, "size=64k"))
		t.Cleanup(func() { _ = unix.Unmount(base, unix.MNT_DETACH) })
		const claim = "capstan://default/host-01/0a1b"
		j, err := Open(base, claim)
		must(t, err)
		defer j.Close()
		file := filepath.Join(base, "file")
		must(t, j.Start("one", "mark"), j.Note("key", "kept"), atomicfile.Write(file, []byte("old"), 0o600))

		var full error
		written := 1
		for i := 0; full == nil; i++ {
			value := strings.Repeat("x", 997) + string(rune('a'+i%26)) + string(rune('a'+i/26))
			if full = j.Note("key", value); full == nil {
				written++
			}
		}
		if !errors.Is(full, unix.ENOSPC) {
			t.Fatalf("the error is %v", full)
		}
		if err := atomicfile.Write(file, make([]byte, 32<<10), 0o600); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("the error of writing a file on a full disk is %v", err)
		}
		if old, err := os.ReadFile(file); err != nil || string(old) != "old" {
			t.Errorf("the file is %q, %v", old, err)
		}
		if entries, err := os.ReadDir(base); err != nil || len(entries) != 2 { // the file and the journal
			t.Errorf("files on the disk: %v, %v", entries, err)
		}
		if err := openAndClose(base, claim); err != nil {
			t.Errorf("opening the journal on a full disk: %v", err)
		}
		seen := func() []string {
			views, err := Look(base)
			if err != nil || len(views) != 1 || views[0].Damage() != nil {
				t.Fatalf("the journal is %v, %v", views, err)
			}
			return views[0].Notes("key")
		}
		if got := seen(); len(got) != written || got[0] != "kept" {
			t.Errorf("the journal has %d notes, but %d were written", len(got), written)
		}
		must(t, unix.Mount("", base, "", unix.MS_REMOUNT, "size=1m"), j.Note("key", "after"), j.Finish("one", 0))
		if got := seen(); len(got) != written+1 || got[written] != "after" || !reflect.DeepEqual(got, j.Notes("key")) {
			t.Errorf("once there is room again: %d notes, %q at the end", len(got), got[len(got)-1])
		}
	})
}

// openAndClose opens the journal as a starting agent does, and closes it.
func openAndClose(base, claim string) error {
	j, err := Salvage(base, claim)
	if err != nil {
		return err
	}
	return j.Close()
}
