package local

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/home"
)

func TestOneAtATime(t *testing.T) {
	dir := home.Dir(filepath.Join(t.TempDir(), "home")) // does not exist yet
	unlock, err := lockHome(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}

	short, cancel := context.WithTimeout(t.Context(), 3*lockPause)
	defer cancel()
	var notes []string
	listen := Progress(func(e Event) { notes = append(notes, e.Text) })
	if _, err := lockHome(short, dir, listen); !errors.Is(err, ErrBusy) || hint.Of(err) == "" {
		t.Errorf("the second lockHome got error %v with the hint %q, want ErrBusy with a hint", err, hint.Of(err))
	}
	if len(notes) != 1 {
		t.Errorf("the second lockHome sent the notes %q, want one note", notes)
	}

	go func() { time.Sleep(lockPause / 2); unlock() }()
	again, err := lockHome(t.Context(), dir, nil)
	if err != nil {
		t.Fatalf("lockHome after the first one unlocked: %v", err)
	}
	again()
}

func TestLockNeedsADirectory(t *testing.T) {
	if _, err := LockFile(t.Context(), filepath.Join(t.TempDir(), "missing", "lock"), "test", nil); err == nil {
		t.Error("a file in a directory that does not exist was locked")
	}
	if _, err := lockHome(t.Context(), "/proc/self/none", nil); hint.Of(err) == "" {
		t.Errorf("the error %v has no hint", err)
	}
}
