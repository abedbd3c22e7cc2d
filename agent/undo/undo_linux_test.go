package undo

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// notes is a journal in memory.
type notes map[string][]string

func (n notes) Note(key, value string) error {
	if !slices.Contains(n[key], value) {
		n[key] = append(n[key], value)
	}
	return nil
}

func (n notes) Notes(key string) []string { return n[key] }

func TestEverythingIsPutBack(t *testing.T) {
	base := t.TempDir()
	k := &Keeper{Dir: filepath.Join(base, "kept"), Notes: notes{}}
	old, fresh := filepath.Join(base, "old"), filepath.Join(base, "a", "b", "new")
	if err := os.WriteFile(old, []byte("before"), 0o640); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time has no effect: the file has changed already
		if err := k.Keep(old); err != nil {
			t.Fatal(err)
		}
		if err := k.MakeDir(filepath.Dir(fresh)); err != nil {
			t.Fatal(err)
		}
		if err := k.Keep(fresh); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{old, fresh} {
			if err := os.WriteFile(path, []byte("after"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(old, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if made := k.Made(); !slices.Equal(made, []string{fresh}) {
		t.Errorf("made %v", made)
	}
	for range 2 {
		if err := k.Restore(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(old)
		info, statErr := os.Stat(old)
		if err != nil || statErr != nil || string(data) != "before" || info.Mode() != 0o640 {
			t.Errorf("old: %q %v %v", data, info, err)
		}
		if _, err := os.Stat(filepath.Join(base, "a")); !os.IsNotExist(err) {
			t.Errorf("the new directory is still there: %v", err)
		}
	}
}

func TestADirectoryWithSomethingOfOthersStays(t *testing.T) {
	base := t.TempDir()
	k := &Keeper{Dir: filepath.Join(base, "kept"), Notes: notes{}}
	dir := filepath.Join(base, "a")
	if err := k.MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := k.Restore(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

func TestALinkIsNotTakenForAFile(t *testing.T) {
	base := t.TempDir()
	k := &Keeper{Dir: filepath.Join(base, "kept"), Notes: notes{}}
	link := filepath.Join(base, "link")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	if err := k.Keep(link); err == nil {
		t.Error("a link was kept as a file")
	}
}

// Whatever a tenant puts in a file's place, cleaning neither blocks on it nor follows it elsewhere.
func TestAFileThatBecameSomethingElse(t *testing.T) {
	for name, replace := range map[string]func(path, elsewhere string) error{
		"a pipe":   func(path, _ string) error { return syscall.Mkfifo(path, 0o600) },
		"a link":   func(path, elsewhere string) error { return os.Symlink(elsewhere, path) },
		"a socket": func(path, _ string) error { return syscall.Mknod(path, syscall.S_IFSOCK|0o600, 0) },
		"a huge file": func(path, _ string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40))
		},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			k := &Keeper{Dir: filepath.Join(base, "kept"), Notes: notes{}}
			path, elsewhere := filepath.Join(base, "file"), filepath.Join(base, "elsewhere")
			for _, p := range []string{path, elsewhere} {
				if err := os.WriteFile(p, []byte("before"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := k.Keep(path); err != nil {
				t.Fatal(err)
			}
			err := errors.Join(os.Remove(path), os.WriteFile(elsewhere, []byte("mine"), 0o600), replace(path, elsewhere))
			if err != nil {
				t.Fatal(err)
			}
			if changed, err := k.Changed(); err != nil || !slices.Equal(changed, []string{path}) {
				t.Errorf("changed %v, %v", changed, err)
			}
			if err := k.Restore(); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(path)
			other, otherErr := os.ReadFile(elsewhere)
			if err != nil || otherErr != nil || string(data) != "before" || string(other) != "mine" {
				t.Errorf("after Restore: %q %v, elsewhere %q %v", data, err, other, otherErr)
			}
			if changed, err := k.Changed(); err != nil || len(changed) != 0 {
				t.Errorf("changed after Restore: %v, %v", changed, err)
			}
		})
	}
}
