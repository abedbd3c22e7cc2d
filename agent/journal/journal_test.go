package journal

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const claim = "capstan://default/h1/0a1b2c3d"

func mustOpen(t *testing.T, base string) *Journal {
	t.Helper()
	j, err := Open(base, claim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// write makes a journal with one record of each kind.
func write(t *testing.T, base string) *Journal {
	j := mustOpen(t, base)
	must(t,
		j.Start("write_files", ""), j.Finish("write_files", 0),
		j.Start("runcmd 1/2", "m1"), j.Start("runcmd 1/2", "m2"), j.Finish("runcmd 1/2", 3),
		j.Note("file", "/a"), j.Note("file", "/b"), j.Note("file", "/a"),
		j.Start("runcmd 2/2", "m3"),
		j.Fail("runcmd 2/2", "ended with status 1"),
		j.Clean([]string{"process 1"}), j.Clean(nil),
	)
	return j
}

func TestAReopenedJournalKnowsTheSame(t *testing.T) {
	base := t.TempDir()
	before := write(t, base)
	must(t, before.Close())
	after := mustOpen(t, base)
	for _, step := range []string{"write_files", "runcmd 1/2", "runcmd 2/2", "never"} {
		if a, b := after.Step(step), before.Step(step); a != b {
			t.Errorf("%s: %+v, was %+v", step, a, b)
		}
	}
	if got := after.Step("runcmd 1/2"); got != (Step{Starts: 2, Mark: "m2", Finished: true, Status: 3}) {
		t.Errorf("got %+v", got)
	}
	if got := after.Notes("file"); !reflect.DeepEqual(got, []string{"/a", "/b"}) {
		t.Errorf("notes %q", got)
	}
	if after.Outcome() != before.Outcome() || after.Outcome().Step != "runcmd 2/2" || !after.Outcome().Ended || after.Outcome().Succeeded {
		t.Errorf("outcome %+v", after.Outcome())
	}
	if cleaned, left := after.Cleaned(); !cleaned || len(left) != 0 {
		t.Errorf("cleaned %t, %q", cleaned, left)
	}
}

// A journal cut at any byte must open, know a prefix of what was written, and take new records.
func TestATornJournalOpensAtEveryByte(t *testing.T) {
	base := t.TempDir()
	j := write(t, base)
	must(t, j.Close())
	whole, err := os.ReadFile(filepath.Join(j.Dir(), file))
	must(t, err)
	for cut := range len(whole) {
		for _, tail := range []string{"", "\x00\x00\x00", "\x00\x00\n"} {
			must(t, os.WriteFile(filepath.Join(j.Dir(), file), append(whole[:cut:cut], tail...), 0o600))
			torn, err := Open(base, claim)
			if err != nil {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			must(t, torn.Start("new", "m"), torn.Close())
			again, err := Open(base, claim)
			if err != nil || again.Step("new").Starts != 1 {
				t.Fatalf("cut at %d: the new record is lost: %v", cut, err)
			}
			must(t, again.Close())
		}
	}
}

func TestADamagedJournalIsAnErrorThatSaysWhatToDo(t *testing.T) {
	base := t.TempDir()
	j := write(t, base)
	must(t, j.Close())
	path := filepath.Join(j.Dir(), file)
	data, err := os.ReadFile(path)
	must(t, err)
	data[0] = 'x'
	must(t, os.WriteFile(path, data, 0o600))
	if _, err := Open(base, claim); err == nil || !strings.Contains(err.Error(), "clean the host by hand") {
		t.Fatalf("got %v", err)
	}
}

func TestOthers(t *testing.T) {
	base := t.TempDir()
	if others, err := Others(filepath.Join(base, "none"), claim); err != nil || others != nil {
		t.Fatalf("got %v, %v", others, err)
	}
	mustOpen(t, base)
	older, err := Open(base, "capstan://default/h1/ffffffff")
	must(t, err, os.Mkdir(filepath.Join(base, "empty"), 0o700))
	others, err := Others(base, claim)
	if err != nil || !reflect.DeepEqual(others, []string{"capstan://default/h1/ffffffff"}) {
		t.Fatalf("got %v, %v", others, err)
	}
	must(t, older.Remove())
	if others, err = Others(base, claim); err != nil || len(others) != 0 {
		t.Fatalf("got %v, %v", others, err)
	}
	if entries, _ := os.ReadDir(base); len(entries) != 1 {
		t.Errorf("left: %v", entries)
	}
}

func TestFoldersOfDifferentClaimsDiffer(t *testing.T) {
	names := map[string]string{}
	for _, c := range []string{"capstan://a/b/c", "capstan://a_b/c", "a/b/c", "../../etc", "", strings.Repeat("x", 500), strings.Repeat("x", 501)} {
		name := folder(c)
		if strings.ContainsAny(name, "/") || len(name) > 200 || names[name] != "" {
			t.Errorf("%q: folder %q", c, name)
		}
		names[name] = c
	}
}
