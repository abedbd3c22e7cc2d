package runtime_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	citation  = regexp.MustCompile(`\b((?:RX|RC|RS|CL|LH|UH|CT|SG|D)-\d\d\d?)(?: to ((?:RX|RC|RS|CL|LH|UH)-\d\d))?\b`)
	explained = regexp.MustCompile(`(?m)^- \*\*([A-Z]+-\d\d)\*\*`)
)

// cited returns the ids that a text cites; "RX-02 to RX-04" cites three.
func cited(text string) []string {
	var all []string
	for _, m := range citation.FindAllStringSubmatch(text, -1) {
		family, from, _ := strings.Cut(m[1], "-")
		first, _ := strconv.Atoi(from)
		last := first
		if other, to, ok := strings.Cut(m[2], "-"); ok && other == family {
			last, _ = strconv.Atoi(to)
		}
		for n := first; n <= last; n++ {
			all = append(all, fmt.Sprintf("%s-%02d", family, n))
		}
	}
	return all
}

// RULES.md explains exactly the rules that this module cites, so the module can be read on its own.
func TestRulesAreExplained(t *testing.T) {
	text, err := os.ReadFile("RULES.md")
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, m := range explained.FindAllStringSubmatch(string(text), -1) {
		known = append(known, m[1])
	}
	by := map[string]string{}
	err = filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if entry.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		source := strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") ||
			strings.HasSuffix(path, ".tmpl")
		if !source && !strings.HasSuffix(path, ".md") {
			return nil
		}
		data, err := os.ReadFile(path)
		// RULES.md is searched, too, because the texts of its rules cite other rules. The id in front of a rule's own text is
		// not a citation.
		for _, id := range cited(explained.ReplaceAllString(string(data), "")) {
			by[id] = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(by) < 50 {
		t.Fatalf("only %d rules are cited: the test looks in the wrong place", len(by))
	}
	for id, path := range by {
		if !slices.Contains(known, id) {
			t.Errorf(
				"%s cites %s, which RULES.md does not explain: take its text from the catalogue of rules",
				path,
				id,
			)
		}
	}
	for _, id := range known {
		if by[id] == "" {
			t.Errorf("RULES.md explains %s, which nothing cites", id)
		}
	}
}

func TestCitations(t *testing.T) {
	for text, want := range map[string]string{
		"(RX-05)": "RX-05", "RX-02 to RX-04": "RX-02 RX-03 RX-04", "T-RX-1": "", "D-30, RS-02": "D-30 RS-02", "none": "",
	} {
		if got := strings.Join(cited(text), " "); got != want {
			t.Errorf("%q cites %q, want %q", text, got, want)
		}
	}
}
