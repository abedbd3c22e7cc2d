package logfile

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func open(t *testing.T) *Log {
	t.Helper()
	l, err := Open(filepath.Join(t.TempDir(), "pod", "container", "0.log"))
	if err != nil {
		t.Fatal(err)
	}
	l.now = func() time.Time { return time.Date(2026, 5, 4, 3, 2, 1, 123456789, time.UTC) }
	t.Cleanup(func() { l.Close() })
	return l
}

func contents(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestCopyWritesTheFormatTheKubeletReads(t *testing.T) {
	const at = "2026-05-04T03:02:01.123456789Z"
	long := strings.Repeat("x", MaxLine)
	cases := map[string]struct{ in, want string }{
		"a line":                     {"hello\n", at + " stdout F hello\n"},
		"two lines and an empty one": {"a\n\nb\n", at + " stdout F a\n" + at + " stdout F \n" + at + " stdout F b\n"},
		"a last line without an end": {"a\nb", at + " stdout F a\n" + at + " stdout P b\n"},
		"a long line is split":       {long + "yz\n", at + " stdout P " + long + "\n" + at + " stdout F yz\n"},
		"no output":                  {"", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := open(t)
			if err := l.Copy(Stdout, strings.NewReader(c.in)); err != nil {
				t.Fatal(err)
			}
			if got := contents(t, l.path); got != c.want {
				t.Errorf("log is\n%q, want\n%q", got, c.want)
			}
		})
	}
}

func TestReopenGoesOnInANewFile(t *testing.T) {
	l := open(t)
	if err := l.Line(Stderr, "before"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(l.path, l.path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := l.Line(Stderr, "between"); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	if err := l.Line(Stderr, "after"); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, l.path+".1"); strings.Count(got, "\n") != 2 || !strings.Contains(got, "between") {
		t.Errorf("the rotated file is %q, want the lines before the reopening", got)
	}
	if got := contents(t, l.path); !strings.HasSuffix(got, " stderr F after\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("the new file is %q, want only the line after the reopening", got)
	}
}

func TestFollowersNeverHoldTheContainerUp(t *testing.T) {
	l := open(t)
	chunks, stop := l.Follow()
	for range 10 * followBuffer {
		if err := l.Line(Stdout, "x"); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	n := 0
	for c := range chunks {
		if string(c.Data) != "x\n" || c.Stream != Stdout {
			t.Fatalf("a follower got %q of %s", c.Data, c.Stream)
		}
		n++
	}
	if n != followBuffer {
		t.Errorf("a follower that did not read got %d chunks, want the first %d", n, followBuffer)
	}
	stop() // a second call has no effect
}

func TestFollowersSeeALineBeforeItsEnd(t *testing.T) {
	l := open(t)
	chunks, stop := l.Follow()
	defer stop()
	r, w := io.Pipe()
	copied := make(chan error, 1)
	go func() { copied <- l.Copy(Stdout, r) }()
	for _, part := range []string{"name: ", "me\nmore"} {
		if _, err := io.WriteString(w, part); err != nil {
			t.Fatal(err)
		}
		if c := <-chunks; string(c.Data) != part || c.Stream != Stdout {
			t.Errorf("a follower got %q of %s, want %q", c.Data, c.Stream, part)
		}
	}
	w.Close()
	if err := <-copied; err != nil {
		t.Error(err)
	}
}

func TestCloseEndsFollowersAndDiscardsWrites(t *testing.T) {
	l := open(t)
	chunks, stop := l.Follow()
	defer stop()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, ok := <-chunks; ok {
		t.Error("a follower of a closed log got a chunk")
	}
	if err := l.Line(Stdout, "late"); err != nil {
		t.Errorf("writing to a closed log: %v, want it discarded", err)
	}
	if err := l.Reopen(); err == nil {
		t.Error("a closed log could be reopened")
	}
}
