package verdicts

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Level says which ids and limits the hosts of a test have, which decides what can work on them. For local hosts, the
// level depends on the user who runs the dock.
type Level string

// The levels.
const (
	AllIDs         Level = "all"         // root: 65,536 ids, and limits where there are cgroups
	SubordinateIDs Level = "subordinate" // an ordinary user with newuidmap: 65,536 ids, no cgroups of version 1
	OneID          Level = "one"         // any other ordinary user
	Owned          Level = "owned"       // no local hosts: computers with a stock kubelet and container runtime
)

var levels = []Level{AllIDs, SubordinateIDs, OneID, Owned}

// Lack is something missing that keeps a test from passing.
type Lack string

// What can be missing.
const (
	Kernel Lack = "kernel" // a facility of the kernel
	ID     Lack = "id"     // user and group ids
	Cgroup Lack = "cgroup"
	Image  Lack = "image" // an image that can't be rebuilt
	Judge  Lack = "judge" // not ours: the suite is wrong, or tests something else
	Gap    Lack = "gap"   // something that Capstan does not do yet
)

// Expected is a test that is expected not to pass.
type Expected struct {
	// Test is the test's full name. A name that ends in * means all tests that begin like this.
	Test string `json:"test"`
	// Levels are the levels at which the test does not pass. If there are none, it passes at no level.
	Levels  []Level `json:"levels,omitempty"`
	Outcome Outcome `json:"outcome"`
	// Unsteady is set if the test also passes now and then. Then both results are expected.
	Unsteady bool `json:"unsteady,omitempty"`
	Lack     Lack `json:"lack"`
	// Reason is a sentence that says what is missing.
	Reason string `json:"reason"`
}

// ReadExpected reads a list of tests that are expected not to pass. It fails if an entry does not say what is missing.
func ReadExpected(path string) ([]Expected, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []Expected
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	for _, e := range all {
		if e.Test == "" || e.Test == "*" || len(e.Reason) < 10 ||
			!slices.Contains([]Lack{Kernel, ID, Cgroup, Image, Judge, Gap}, e.Lack) ||
			!slices.Contains([]Outcome{Failed, Skipped}, e.Outcome) ||
			slices.ContainsFunc(e.Levels, func(l Level) bool { return !slices.Contains(levels, l) }) {
			return nil, fmt.Errorf(
				"%s: the entry %+v needs test, outcome (failed, skipped), lack, a reason, and levels "+
					"(all, subordinate, one, owned) if any",
				path,
				e,
			)
		}
	}
	return all, nil
}

// at reports whether an entry applies to a level.
func (e Expected) at(level Level) bool { return len(e.Levels) == 0 || slices.Contains(e.Levels, level) }

// about reports whether an entry applies to a test.
func (e Expected) about(name string) bool {
	if prefix, is := strings.CutSuffix(e.Test, "*"); is {
		return strings.HasPrefix(name, prefix)
	}
	return name == e.Test
}

// Find returns the entry for a test at a level.
func Find(expected []Expected, name string, level Level) (Expected, bool) {
	i := slices.IndexFunc(expected, func(e Expected) bool { return e.at(level) && e.about(name) })
	if i < 0 {
		return Expected{}, false
	}
	return expected[i], true
}

// Compare returns the differences from the expectation: tests that failed or were skipped but are not in the list, and
// tests of the list that passed, unless they are unsteady, or had another outcome. If whole is set, all tests of the
// suite ran, and Compare also reports entries that match no test. Pure.
func Compare(all []Verdict, expected []Expected, level Level, whole bool) (differences []string) {
	used := map[string]bool{}
	for _, v := range all {
		e, is := Find(expected, v.Name, level)
		if is {
			used[e.Test] = true
		}
		switch {
		case !is && v.Outcome != Passed:
			differences = append(
				differences,
				fmt.Sprintf("%s: %s, which was not expected: %s", v.Outcome, v.Name, brief(v.Message)),
			)
		case is && v.Outcome != e.Outcome && !(e.Unsteady && v.Outcome == Passed):
			differences = append(
				differences,
				fmt.Sprintf("%s: %s, expected was %s (%s): mend the list", v.Outcome, v.Name,
					e.Outcome, e.Reason),
			)
		}
	}
	for _, e := range expected {
		if whole && e.at(level) && !used[e.Test] {
			differences = append(differences, fmt.Sprintf("no test is named %s: mend the list", e.Test))
		}
	}
	return differences
}

// maxBrief limits a message in a table.
const maxBrief = 240

// brief returns the beginning of a message as one line. Pure.
func brief(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxBrief {
		text = strings.ToValidUTF8(text[:maxBrief], "") + "…"
	}
	return text
}

// Table returns all tests as lines: outcome, seconds, name and, for tests that did not pass, the reason. Pure.
func Table(all []Verdict, expected []Expected, level Level) string {
	var text strings.Builder
	for _, outcome := range []Outcome{Failed, Skipped, Passed} {
		for _, v := range all {
			if v.Outcome != outcome {
				continue
			}
			fmt.Fprintf(&text, "%-7s %7.1fs  %s\n", v.Outcome, v.Seconds, v.Name)
			if e, is := Find(expected, v.Name, level); is && e.Outcome == v.Outcome {
				fmt.Fprintf(&text, "%18s%s: %s\n", "", e.Lack, e.Reason)
			} else if v.Message != "" {
				fmt.Fprintf(&text, "%18s%s\n", "", brief(v.Message))
			}
		}
	}
	fmt.Fprintf(
		&text,
		"%d passed, %d failed, %d skipped\n",
		Count(all, Passed),
		Count(all, Failed),
		Count(all, Skipped),
	)
	return text.String()
}
