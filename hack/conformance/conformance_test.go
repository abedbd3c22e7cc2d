package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/test/images"
	"github.com/capstan-dev/capstan/test/verdicts"
)

func newProgress(t *testing.T) *progress {
	t.Helper()
	return &progress{
		file: filepath.Join(
			t.TempDir(),
			"progress.json",
		), Level: verdicts.AllIDs, Attempts: map[string][]verdicts.Verdict{}, Broken: map[string]int{},
	}
}

func add(t *testing.T, p *progress, name string, outcomes ...verdicts.Outcome) {
	t.Helper()
	for _, outcome := range outcomes {
		if err := p.add([]string{name}, []verdicts.Verdict{{Name: name, Outcome: outcome}}); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	passed  = verdicts.Passed
	failed  = verdicts.Failed
	skipped = verdicts.Skipped
)

func TestWhatRunsNext(t *testing.T) {
	chosen := []string{"a", "b [Serial]", "c"}
	p := newProgress(t)
	next := func() string {
		batch, alone := p.next(chosen, []verdicts.Expected{{Test: "c", Outcome: failed}})
		text := strings.Join(batch, " ")
		if alone {
			text += ", alone"
		}
		return text
	}
	steps := []struct {
		want string
		then func()
	}{
		{"a c", func() { add(t, p, "a", failed); add(t, p, "c", failed) }},
		{"b [Serial], alone", func() { add(t, p, "b [Serial]", skipped) }},
		{"c", func() { add(t, p, "c", failed) }}, // c is expected to fail
		{"c", func() { add(t, p, "c", failed) }},
		{"a, alone", func() { add(t, p, "a", passed) }},
		{"a, alone", func() { add(t, p, "a", failed) }},
		{"", func() {}},
	}
	for i, s := range steps {
		if got := next(); got != s.want {
			t.Fatalf("step %d: the next specs are %q, want %q", i, got, s.want)
		}
		s.then()
	}
	if left := p.left(chosen); len(left) != 0 {
		t.Errorf("specs are left: %q", left)
	}
}

func TestASpecWithoutAVerdictRunsAgainButNotForEver(t *testing.T) {
	p := newProgress(t)
	for range tries {
		batch, _ := p.next([]string{"a"}, nil)
		if err := p.add(batch, nil); err != nil {
			t.Fatal(err)
		}
	}
	if batch, _ := p.next([]string{"a"}, nil); len(batch) > 0 || len(p.left([]string{"a"})) != 1 {
		t.Errorf("the spec still runs, with %q, or counts as done", batch)
	}
}

func TestFinalVerdicts(t *testing.T) {
	cases := map[string]struct {
		outcomes []verdicts.Outcome
		want     verdicts.Outcome
		unsteady bool
	}{
		"a spec that passes":                              {[]verdicts.Outcome{passed}, passed, false},
		"a spec that was skipped":                         {[]verdicts.Outcome{skipped}, skipped, false},
		"a spec that always fails":                        {[]verdicts.Outcome{failed, failed, failed}, failed, false},
		"a spec that failed once":                         {[]verdicts.Outcome{failed, passed, passed}, passed, true},
		"a spec that passed once":                         {[]verdicts.Outcome{failed, passed, failed}, failed, true},
		"a spec that failed and is left for another part": {[]verdicts.Outcome{failed}, failed, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := newProgress(t)
			add(t, p, "a", c.outcomes...)
			final := p.verdicts([]string{"a", "never ran"})
			if len(final) != 1 || final[0].Outcome != c.want || (len(p.unsteady()) > 0) != c.unsteady {
				t.Errorf("the final verdicts are %+v, the unsteady specs %q", final, p.unsteady())
			}
		})
	}
}

func TestChoose(t *testing.T) {
	all, err := readSpecs(
		[]byte("- codename: '[sig-b] two\n    lines [Conformance]'\n- codename: '[sig-a] one [Conformance]'\n"),
	)
	if err != nil || !slices.Equal(all, []string{"[sig-a] one [Conformance]", "[sig-b] two lines [Conformance]"}) {
		t.Fatalf("readSpecs returned %q, error %v", all, err)
	}
	o := options{names: []string{"sig-b", "two"}}
	if got, err := o.choose(all); err != nil || !slices.Equal(got, all[1:]) {
		t.Errorf("choosing by expressions: got %q, error %v", got, err)
	}
	o.names = []string{"sig-c"}
	if got, err := o.choose(all); err == nil {
		t.Errorf("an expression that selects nothing: got %q, want an error", got)
	}
	if got, err := fromList(all, "# why\n\n"+all[0]+"\n"); err != nil || !slices.Equal(got, all[:1]) {
		t.Errorf("choosing from a list: got %q, error %v", got, err)
	}
	if got, err := fromList(all, "one"); err == nil {
		t.Errorf("a list with an unknown name: got %q, want an error", got)
	}
}

func TestTheReportIsReadAsTheSuitesOwn(t *testing.T) {
	want := []verdicts.Verdict{
		{Name: "a", Outcome: failed, Seconds: 1.5, Message: "x < y"}, {Name: "b", Outcome: passed, Seconds: 2},
		{Name: "c", Outcome: skipped, Message: "no kernel"},
	}
	data, err := junit(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := verdicts.ReadJUnit(strings.NewReader(string(data)))
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the verdicts in the report are %+v, error %v, in\n%s", got, err, data)
	}
}

// TestTheListForCI: the list has 60 tests, at least twelve of each group, and all exist in the Kubernetes module.
func TestTheListForCI(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := images.Module(t.Context(), root, "k8s.io/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, conformanceFile))
	if err != nil {
		t.Fatal(err)
	}
	all, err := readSpecs(text)
	if err != nil {
		t.Fatal(err)
	}
	o := options{list: filepath.Join(root, "test/conformance/ci.txt")}
	chosen, err := o.choose(all)
	if err != nil || len(chosen) != 60 {
		t.Fatalf("%d tests are chosen: %v", len(chosen), err)
	}
	for _, group := range []string{"network", "storage", "node", "apps", "api-machinery"} {
		if n := len(slices.DeleteFunc(slices.Clone(chosen), func(name string) bool {
			return !strings.HasPrefix(name, "[sig-"+group+"] ")
		})); n < 12 {
			t.Errorf("there are only %d tests of the group %s", n, group)
		}
	}
}

func TestTheLevelIsWhatTheNodesSay(t *testing.T) {
	for _, c := range []struct {
		labels string
		uid    int
		want   verdicts.Level
	}{
		{"all all all", 0, verdicts.AllIDs},
		{"all all all", 1000, verdicts.SubordinateIDs},
		{"one one one", 1000, verdicts.OneID},
		{"all one all", 0, verdicts.OneID},
		{"", 0, verdicts.OneID}, // hollow Nodes do not have the label
	} {
		if got := levelOf(strings.Fields(c.labels), c.uid); got != c.want {
			t.Errorf("labels %q of user %d mean level %s, want %s", c.labels, c.uid, got, c.want)
		}
	}
}

// TestAGivenCluster: a given cluster has a level and reports of its own, and excludes all options that create another
// cluster.
func TestAGivenCluster(t *testing.T) {
	o := options{kubeconfig: "/k", root: "/r"}
	level, err := o.level(t.Context(), &cluster{given: true})
	if err != nil || level != verdicts.Owned || filepath.Base(o.reports()) != "owned" {
		t.Errorf("the level is %q and the reports are in %s, error %v", level, o.reports(), err)
	}
	for _, flag := range []string{"-hollow", "-keep", "-home=/h", "-user=1"} {
		var said strings.Builder
		if code := command(t.Context(), []string{"-kubeconfig", "k", flag}, &said, &said); code != 2 ||
			!strings.Contains(said.String(), "-kubeconfig") {
			t.Errorf("a given cluster with %s: got exit status %d and the output %s", flag, code, &said)
		}
	}
}
