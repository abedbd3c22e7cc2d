package baseline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWalkSeesWhatCounts compares walks of random trees with plainWalk, which looks at every file, one after the other.
func TestWalkSeesWhatCounts(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			root := t.TempDir()
			plant(t, root, rand.New(rand.NewPCG(seed, seed)))
			h := Host{Root: root, Own: []string{"/usr/own", "/var/own"}}
			want := plainWalk(t, h)
			var got []entry
			if err := h.walk(t.Context(), func(e entry) error { got = append(got, e); return nil }); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("the walk has %d entries, the plain walk %d, or they differ", len(got), len(want))
			}
			if !slices.IsSortedFunc(got, func(a, b entry) int { return order(a.path, b.path) }) {
				t.Error("the entries of the walk are not in order")
			}
		})
	}
}

// plant creates files of all kinds, in trees that count and in others.
func plant(t *testing.T, root string, r *rand.Rand) {
	t.Helper()
	names := []string{"a", "a.b", "a-b", "a b", "A", "ä", "\xff", "b", "own"}
	tops := []string{"/etc", "/usr", "/var", "/root", "/root/.ssh", "/var/spool/cron", "/var/own", "/usr/own", "/opt/x"}
	for range 200 {
		dir := tops[r.IntN(len(tops))]
		for range r.IntN(4) {
			dir += "/" + names[r.IntN(len(names))]
		}
		path := filepath.Join(root, dir, names[r.IntN(len(names))])
		if os.MkdirAll(filepath.Dir(path), 0o755) != nil {
			continue // a file is in the way
		}
		switch r.IntN(5) {
		case 0:
			_ = os.Symlink("nowhere", path) // something may be there already, as below
		case 1:
			_ = unix.Mkfifo(path, 0o600)
		default:
			f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // never through a link, nor to a pipe
			if err != nil {
				continue
			}
			mode := []fs.FileMode{0o644, 0o755, 0o755 | fs.ModeSetuid, 0o644 | fs.ModeSetgid}[r.IntN(4)]
			if err := errors.Join(f.Chmod(mode), f.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// plainWalk returns what a walk should see.
func plainWalk(t *testing.T, h Host) (want []entry) {
	t.Helper()
	err := filepath.WalkDir(h.Root, func(full string, d fs.DirEntry, err error) error {
		path := h.inside(full)
		switch {
		case err != nil:
			return err
		case slices.Contains(h.Own, path) && d.IsDir():
			return fs.SkipDir
		case slices.Contains(h.Own, path):
			return nil
		}
		e, err := examine(unix.AT_FDCWD, "", full, treesOf(path))
		e.path = path
		if err == nil && e.counts(treesOf(path)) {
			want = append(want, e)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return want
}

// TestALargeDirectory: a directory with more names than fit in memory at once is read a part at a time, in order.
func TestALargeDirectory(t *testing.T) {
	for _, files := range []int{0, 1, 49, 50, 51, 99, 100, 101, 320} {
		full := t.TempDir()
		var want []string
		for n := range files {
			name := fmt.Sprintf("%x", n*7919)
			if err := os.WriteFile(filepath.Join(full, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			want = append(want, name)
		}
		slices.Sort(want)
		d := newDirectory(nil, "")
		r := &reader{h: Host{Root: full}}
		d.most = 50
		var got []string
		for first := true; first || d.more(); first = false {
			r.read(t.Context(), d)
			if err := errors.Join(d.err, d.failed); err != nil {
				t.Fatal(err)
			}
			if len(d.names) > d.most || len(d.items) > d.most {
				t.Fatalf("%d names and %d items are in memory", len(d.names), len(d.items))
			}
			for _, i := range d.items {
				got = append(got, i.name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("there are %d files, but %d were read, or in another order", len(want), len(got))
		}
	}
}

// TestAWalkEnds: a walk stops when its context ends, and when the function that it calls fails.
func TestAWalkEnds(t *testing.T) {
	h := Host{Root: t.TempDir()}
	plant(t, h.Root, rand.New(rand.NewPCG(1, 1)))
	ctx, cancel := context.WithCancel(t.Context())
	if err := h.walk(ctx, func(entry) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("the error of a walk whose context ends is %v", err)
	}
	failure := errors.New("no")
	seen := 0
	err := h.walk(t.Context(), func(entry) error {
		if seen++; seen == 5 {
			return failure
		}
		return nil
	})
	if !errors.Is(err, failure) || seen != 5 {
		t.Errorf("a walk that must fail at the fifth entry ended after %d entries: %v", seen, err)
	}
}
