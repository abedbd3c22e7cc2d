package journal

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
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

// write creates a journal with one record of each kind.
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
	if after.Outcome() != before.Outcome() || after.Outcome().Step != "runcmd 2/2" || !after.Outcome().Ended ||
		after.Outcome().Succeeded {
		t.Errorf("outcome %+v", after.Outcome())
	}
	if cleaned, left := after.Cleaned(); !cleaned || len(left) != 0 {
		t.Errorf("cleaned %t, %q", cleaned, left)
	}
}

// A journal cut off at any byte must open, contain a prefix of what was written, and take new records.
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

// damage makes the line at an index unreadable.
func damage(t *testing.T, dir string, index int) {
	t.Helper()
	path := filepath.Join(dir, file)
	data, err := os.ReadFile(path)
	must(t, err)
	lines := strings.SplitAfter(string(data), "\n")
	lines[index] = "x" + lines[index][1:]
	must(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600))
}

func TestADamagedJournalIsAnErrorThatSaysWhatToDo(t *testing.T) {
	base := t.TempDir()
	j := write(t, base)
	must(t, j.Close())
	damage(t, j.Dir(), 0)
	if _, err := Open(base, claim); !errors.Is(err, ErrDamaged) ||
		!strings.Contains(err.Error(), "at byte 0: delete the machine") {
		t.Fatalf("got %v", err)
	}
}

// Whichever record is lost, the others count, the host must be cleaned, and the old file is kept for a person to
// examine.
func TestADamagedJournalIsSalvaged(t *testing.T) {
	for index := range 11 { // a damaged last record counts as never written
		base := t.TempDir()
		j := write(t, base)
		must(t, j.Close())
		damage(t, j.Dir(), index)
		before, err := os.ReadFile(filepath.Join(j.Dir(), file))
		must(t, err)
		views, err := Look(base)
		if err != nil || len(views) != 1 || !errors.Is(views[0].Damage(), ErrDamaged) || !views[0].Carries() ||
			!views[0].IsOf(claim) || views[0].Claim() == "" {
			t.Fatalf("line %d: %v, %v", index, views, err)
		}
		for range 2 { // the second time there is nothing to do
			s, err := Salvage(base, claim)
			if err != nil {
				t.Fatalf("line %d: %v", index, err)
			}
			cleaned, _ := s.Cleaned()
			if s.Claim() != claim || cleaned || !s.Carries() || !s.Outcome().Ended || s.Outcome().Succeeded {
				t.Errorf("line %d: claim %q, cleaned %t, outcome %+v", index, s.Claim(), cleaned, s.Outcome())
			}
			if notes := len(s.Notes("file")); notes != 2 && (notes != 1 || index != 6 && index != 7) {
				t.Errorf("line %d: notes %q", index, s.Notes("file"))
			}
			aside, err := os.ReadFile(s.Aside())
			if err != nil || string(aside) != string(before) {
				t.Errorf("line %d: the file that was moved aside is %q, %v", index, aside, err)
			}
			must(t, s.Close())
		}
		s := mustOpen(t, base)
		must(t, os.Remove(s.Aside()), s.Clean(nil))
		if s.Carries() || s.Aside() != "" {
			t.Errorf("line %d: the host is not clean after a person has removed the damaged file", index)
		}
	}
}

func TestAJournalWithoutItsClaimIsSalvaged(t *testing.T) {
	base := t.TempDir()
	j := write(t, base)
	must(t, j.Close())
	damage(t, j.Dir(), 0)
	views, err := Look(base)
	must(t, err)
	s, err := views[0].Salvage()
	must(t, err)
	defer s.Close()
	if !strings.Contains(s.Claim(), j.Dir()) || len(s.Notes("file")) != 2 {
		t.Errorf("claim %q, notes %q", s.Claim(), s.Notes("file"))
	}
}

func TestAFullJournalTakesResults(t *testing.T) {
	base := t.TempDir()
	j := mustOpen(t, base)
	must(t, j.Start("first", "m"))
	var err error
	for i := 0; err == nil; i++ {
		err = j.Note("k", strconv.Itoa(i)+strings.Repeat("x", 1<<20))
	}
	if !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	must(t, j.Note("k", "small"), j.Note("k", strings.Repeat("y", sizeLimit-int(j.size)-100)))
	must(t, j.Fail("journal", err.Error()))
	var many []string
	for i := range 40 {
		many = make([]string, 64)
		for k := range many {
			many[k] = strconv.Itoa(i) + strings.Repeat("<", 510)
		}
		must(t, j.Clean(many))
	}
	must(t, j.Close())
	again := mustOpen(t, base)
	if cleaned, left := again.Cleaned(); !cleaned || !reflect.DeepEqual(left, many) || !again.Outcome().Ended ||
		again.Step("first").Starts != 1 {
		t.Errorf("cleaned %t, %d leftovers, outcome %+v", cleaned, len(left), again.Outcome())
	}
	must(t, again.Clean(nil))
	if again.Carries() {
		t.Error("the host is not clean")
	}
}

// TestAJournalOfAnEarlierVersionMayBeLarger: earlier versions of the agent wrote larger files. These take results but
// no more notes, and no record gets lost when such a file is salvaged.
func TestAJournalOfAnEarlierVersionMayBeLarger(t *testing.T) {
	base := t.TempDir()
	j := mustOpen(t, base)
	must(t, j.Start("first", "m"), j.Close())
	line, err := json.Marshal(record{Event: eventNote, Key: "k", Value: strings.Repeat("x", 1<<20)})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(j.Dir(), file)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const notes = sizeLimit>>20 + 2
	for range notes {
		data = append(append(data, line...), '\n')
	}
	must(t, os.WriteFile(path, data, 0o600))
	j = mustOpen(t, base)
	if err := j.Note("k", "small"); !errors.Is(err, ErrFull) {
		t.Errorf("a note fails with %v, want %v", err, ErrFull)
	}
	must(t, j.Fail("journal", "full"), j.Clean([]string{"a"}), j.Clean([]string{"b"}), j.Close())
	if data, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	must(t, os.WriteFile(path, append(data, "damaged\n{}\n"...), 0o600))
	salvaged, err := Salvage(base, claim)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(salvaged.Notes("k")); got != notes || !salvaged.Outcome().Ended {
		t.Errorf("%d notes are left of %d; the outcome is %+v", got, notes, salvaged.Outcome())
	}
	must(t, salvaged.Clean(nil), salvaged.Close())
}

func TestLook(t *testing.T) {
	base := t.TempDir()
	if views, err := Look(filepath.Join(base, "none")); err != nil || views != nil {
		t.Fatalf("got %v, %v", views, err)
	}
	j := write(t, base)
	must(t, j.Start("torn", "m"))
	path := filepath.Join(j.Dir(), file)
	data, err := os.ReadFile(path)
	must(t, err, os.Truncate(path, int64(len(data)-3)), os.Mkdir(filepath.Join(base, "empty"), 0o700))
	views, err := Look(base)
	if err != nil || len(views) != 2 {
		t.Fatalf("got %v, %v", views, err)
	}
	for _, v := range views {
		if v.IsOf(claim) != (v.Claim() == claim) || v.Damage() != nil || v.Carries() || v.Step("torn").Starts != 0 {
			t.Errorf("got %+v", v)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Size() != int64(len(data)-3) {
		t.Errorf("Look has changed the journal: %v", err)
	}
	if entries, _ := os.ReadDir(base); len(entries) != 2 {
		t.Errorf("journals after Look: %v", entries)
	}
	must(t, views[0].Remove(), views[1].Remove())
	if entries, _ := os.ReadDir(base); len(entries) != 0 {
		t.Errorf("journals after Remove: %v", entries)
	}
}

// Concurrent reads lose nothing that a writer wrote.
func TestLookingWhileWriting(t *testing.T) {
	base := t.TempDir()
	j := mustOpen(t, base)
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			views, err := Look(base)
			if err == nil {
				err = views[0].Damage()
			}
			select {
			case <-stop:
				stopped <- err
				return
			default:
			}
			if err != nil {
				stopped <- err
				return
			}
		}
	}()
	const steps = 200
	for i := range steps {
		must(t, j.Start("s"+strconv.Itoa(i), "m"))
	}
	close(stop)
	must(t, <-stopped, j.Close())
	again := mustOpen(t, base)
	for i := range steps {
		if again.Step("s"+strconv.Itoa(i)).Starts != 1 {
			t.Fatalf("step %d is lost", i)
		}
	}
}

func TestDirectoriesOfDifferentClaimsDiffer(t *testing.T) {
	names := map[string]string{}
	for _, c := range []string{"capstan://a/b/c", "capstan://a_b/c", "a/b/c", "../../etc", "", strings.Repeat("x", 500),
		strings.Repeat("x", 501)} {
		name := directory(c)
		if strings.ContainsAny(name, "/") || len(name) > 200 || names[name] != "" {
			t.Errorf("%q: directory %q", c, name)
		}
		names[name] = c
	}
}
