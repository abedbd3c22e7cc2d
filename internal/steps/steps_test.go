package steps

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func fakeClock(p *Printer) {
	at := time.Unix(0, 0)
	p.now = func() time.Time { at = at.Add(500 * time.Millisecond); return at }
}

func TestRunPrintsEachStepOnce(t *testing.T) {
	var out strings.Builder
	p := New(&out)
	fakeClock(p)
	if err := p.Run("start etcd", func(detail func(string)) error {
		detail("waiting for the port")
		detail("waiting for the port")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	failure := errors.New("no space left")
	if err := p.Run("apply manifests", func(func(string)) error { return failure }); !errors.Is(err, failure) {
		t.Fatalf("Run returned %v, want the error of the step", err)
	}
	want := "  … start etcd: waiting for the port\n✓ start etcd  500ms\n✗ apply manifests  500ms\n"
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}

func TestStartEndsTheStepBefore(t *testing.T) {
	var out strings.Builder
	p := New(&out)
	fakeClock(p)
	p.Start("one")
	p.Start("two")
	p.Done()
	p.Done()
	if want := "✓ one  500ms\n✓ two  500ms\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
