package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTheCatalogNamesEachFigureOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range catalog {
		for _, w := range g.figures {
			if seen[w.id] || w.id == "" || w.name == "" || w.unit == "" {
				t.Errorf("figure %q (%s) lacks a unique id, a name or a unit", w.id, w.name)
			}
			seen[w.id] = true
			if w.aim != 0 && (w.bound == 0 || (w.aim > w.bound) != w.atLeast) {
				t.Errorf("figure %q: its aim %v is not better than its bound %v", w.id, w.aim, w.bound)
			}
		}
	}
	for _, s := range suites {
		for r, id := range s.figures {
			if !seen[id] {
				t.Errorf("%s reports figure %q, which the catalog lacks", r.name, id)
			}
		}
	}
}

// TestThePageShowsTheRecord: the page is as generated from the record, and the record's limits match the catalog.
func TestThePageShowsTheRecord(t *testing.T) {
	all, err := readRecord(filepath.Join("..", "..", recordFile))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join("..", "..", pageFile))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page(merge(nil, all)), string(data)); diff != "" {
		t.Errorf("go run ./hack/bench -from hack/bench/figures.json -record changes the page (-new +there):\n%s", diff)
	}
	for _, f := range all {
		if f.Commit == "" || f.Date.IsZero() || f.Level == "" {
			t.Errorf("figure %s does not say what was measured: %+v", f.ID, f)
		}
	}
}

func TestVerdict(t *testing.T) {
	most, least := figure{Bound: 25, Aim: 18}, figure{Bound: 0.8, AtLeast: true}
	for name, c := range map[string]struct {
		of    figure
		value float64
		want  string
	}{
		"at the aim":          {most, 18, ""},
		"at the bound":        {most, 25, "misses its aim"},
		"above the bound":     {most, 25.1, "MISSES ITS BOUND"},
		"above a lower bound": {least, 0.8, ""},
		"below a lower bound": {least, 0.79, "MISSES ITS BOUND"},
		"no limits":           {figure{}, 1e9, ""},
	} {
		c.of.Value = c.value
		if got := c.of.verdict(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestMerge(t *testing.T) {
	before := []figure{
		newFigure("create", levelRoot, 1), newFigure("create", levelOneID, 2), newFigure("up", levelRoot, 3),
		{ID: "an old one", Level: levelRoot},
	}
	var got []string
	for _, f := range merge(before, []figure{newFigure("create", levelOneID, 9)}) {
		got = append(got, f.ID+" "+f.Level+" "+show(f.Value))
	}
	want := []string{"up root 3.00", "create root 1.00", "create one id 9.00"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the merged figures (-want +got):\n%s", diff)
	}
}

func TestThePageMarksWhatMissesItsBound(t *testing.T) {
	f := newFigure("create-service", levelOneID, 30, "first line", "second")
	f.Commit, f.Load = "0123abc", 1.5
	f.Date = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	got := page([]figure{f})
	for _, want := range []string{
		"| create, to a Service fetched by its name: median of 3 | one id " +
			"| **30.0 s** | 25 | 18 | `0123abc` | 2026-01-02 | 1.5 |\n",
		"      first line\n      second\n", "## Not measured yet\n", "The plane:\n\n- up, empty directory\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
}

func TestMiddleOf(t *testing.T) {
	got, text := middleOf([]creation{{served: 30 * time.Second}, {served: 9 * time.Second}, {served: 20 * time.Second}},
		func(c creation) time.Duration { return c.served })
	if want := "median of 9.00, 20.0, 30.0 s; its steps, in seconds:"; got.served != 20*time.Second || text != want {
		t.Errorf("got %s, %q; want 20s, %q", got.served, text, want)
	}
}

func TestPrint(t *testing.T) {
	all := []figure{newFigure("stream-far", levelRoot, 0.5), newFigure("up", levelRoot, 9)}
	var table, text bytes.Buffer
	if err := printTable(&table, all); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(table.String(), "\n")
	if !strings.HasSuffix(lines[1], "misses its aim") || !strings.HasSuffix(lines[2], "MISSES ITS BOUND") {
		t.Errorf("the table is\n%s", &table)
	}
	var back []map[string]any
	if err := printJSON(&text, all); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text.Bytes(), &back); err != nil || len(back) != 2 {
		t.Fatalf("reading the JSON: error %v: %s", err, &text)
	}
	for _, name := range []string{"name", "value", "unit", "bound", "level", "commit", "date", "load"} {
		if _, has := back[0][name]; !has {
			t.Errorf("the JSON of a figure lacks %q: %v", name, back[0])
		}
	}
}

// output is what go test prints for a package that runs hosts: one line for each number of ids.
const output = `goos: linux
BenchmarkServiceStream/one_host,_all_ids-2    20   205954985 ns/op   647.76 MB/s   1.196 times-direct
BenchmarkServiceStream/two_hosts,_all_ids-2   20   190158398 ns/op   821.92 MB/s   0.9484 times-direct
E1125 19:03:48.865897 proxier.go:1169] BenchmarkServiceStream is not a result here
PASS
BenchmarkServiceStream/one_host,_one_id-2     20   263529939 ns/op   670.81 MB/s   1.446 times-direct
BenchmarkServiceStream/one_host,_one_id
PASS
`

func TestReadBenchmarks(t *testing.T) {
	i := slices.IndexFunc(suites, func(s suite) bool { return s.bench == "ServiceStream" })
	many := levelSubordinate
	if os.Getuid() == 0 {
		many = levelRoot
	}
	want := []string{"stream-near " + many + " 1.20", "stream-far " + many + " 0.95", "stream-near one id 1.45"}
	var got []string
	for _, f := range suites[i].read(output) {
		got = append(got, f.ID+" "+f.Level+" "+show(f.Value))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the figures in the output (-want +got):\n%s", diff)
	}
}

func TestPercentile(t *testing.T) {
	var all []time.Duration
	for i := 100; i > 0; i-- {
		all = append(all, time.Duration(i))
	}
	for percent, want := range map[int]time.Duration{0: 1, 1: 1, 50: 50, 99: 99, 100: 100} {
		if got := percentile(all, percent); got != want {
			t.Errorf("percentile %d of the values 1 to 100 is %d", percent, got)
		}
	}
	if got := percentile(all[:1], 99); got != 100 {
		t.Errorf("the percentile of one value is %d", got)
	}
}

func TestUsed(t *testing.T) {
	const s = time.Second
	before := map[string]proc{
		"1": {name: "parent", own: 10 * s, ended: 5 * s, wakeups: 100},
		"2": {name: "child", parent: "1", own: 3 * s, wakeups: 7},
	}
	after := map[string]proc{ // 2 used another second and has exited, 3 is new
		"1": {name: "parent", own: 12 * s, ended: 9 * s, wakeups: 130},
		"3": {name: "new", parent: "1", own: 4 * s, wakeups: 50},
	}
	byName, sum := used(before, after)
	if sum != 7*s {
		t.Errorf("used %v, want 2 s of the parent, 1 s of the child, 4 s of the new one", sum)
	}
	want := []use{{"new", 1, 4 * s, 50}, {"parent", 1, 3 * s, 30}, {name: "child"}}
	if diff := cmp.Diff(want, byName, cmp.AllowUnexported(use{})); diff != "" {
		t.Errorf("the use by name (-want +got):\n%s", diff)
	}
}

// TestProcessorTimeIsCounted compares the time measured for a child with what the kernel reports at its exit.
func TestProcessorTimeIsCounted(t *testing.T) {
	pid := strconv.Itoa(os.Getpid())
	before := processes()[pid]
	child := exec.Command("sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	after := processes()[pid]
	state := child.ProcessState
	want, got := state.UserTime()+state.SystemTime(), after.ended-before.ended
	if want < 2*tick || got < want-3*tick || got > want+3*tick {
		t.Errorf("a child used %v of processor time, but %v were counted", want, got)
	}
	if wakeups(pid) == 0 {
		t.Error("the wakeups of this process, which has waited for its child, were not counted")
	}
}

func TestRefusals(t *testing.T) {
	for _, args := range [][]string{
		{"-o", "yaml"}, {"-parts", "clusters,others"}, {"rest"}, {"-level", "none"}, {"-unknown"},
	} {
		var out, errs bytes.Buffer
		if code := command(t.Context(), args, &out, &errs); code != 2 || errs.Len() == 0 {
			t.Errorf("arguments %q: got exit status %d and the output %q", args, code, &errs)
		}
	}
}
