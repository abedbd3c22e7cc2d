package journal

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// FuzzSalvage: whatever the disk did to a journal, Open opens it or rejects it as damaged. Salvage always opens it.
// After that, the journal accepts records, and has the same contents when it is opened again. A bootstrap that had
// ended still counts as ended.
func FuzzSalvage(f *testing.F) {
	const claim = "capstan://default/host-01/0a1b"
	const first = `{"event":"open","claim":"` + claim + "\"}\n"
	f.Add([]byte(first + `{"event":"start","step":"a","mark":"m"}` + "\n" + `{"event":"succ`))
	f.Add([]byte(first + "x\n" + `{"event":"note","key":"k","value":"v"}` + "\n\x00\x00\n"))
	f.Add([]byte(first + `{"event":"failed","step":"s"}` + "\n" + `{"event":"cleaned"}` + "\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		base := t.TempDir()
		dir := filepath.Join(base, directory(claim))
		must(t, os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, file), data, 0o600))
		before := newView(dir)
		opened, err := os.Open(filepath.Join(dir, file))
		must(t, err)
		_, _, _ = before.read(opened)
		opened.Close()

		j, err := Open(base, claim)
		if err == nil {
			j.Close()
		} else if !errors.Is(err, ErrDamaged) && before.claim == claim {
			t.Fatalf("Open fails, but not because the journal is damaged: %v", err)
		}
		if before.claim != "" && before.claim != claim {
			return // the journal belongs to another claim
		}
		j, err = Salvage(base, claim)
		must(t, err)
		if before.outcome.Ended && !j.Outcome().Ended {
			t.Fatal("a bootstrap that had ended would be run again")
		}
		must(t, j.Note("fuzz", "value"))
		steps, notes, outcome := j.steps, j.notes, j.outcome
		must(t, j.Close())
		again, err := Open(base, claim)
		must(t, err)
		defer again.Close()
		if !reflect.DeepEqual(again.steps, steps) || !reflect.DeepEqual(again.notes, notes) ||
			again.outcome.Ended != outcome.Ended {
			t.Fatalf("the salvaged journal has %v %v, the reopened one %v %v", steps, notes, again.steps, again.notes)
		}
	})
}
