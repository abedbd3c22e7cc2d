package main

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func TestThePagesAreThoseOfTheCode(t *testing.T) {
	for name, page := range pages {
		want, err := page(root)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(root, "docs/reference", name))
		if err != nil || string(got) != want {
			t.Errorf("docs/reference/%s differs from the code (%v): run make generate", name, err)
		}
	}
}

func TestADocBecomesASentence(t *testing.T) {
	all := []constant{{name: "CleanCondition", value: "Clean"}}
	for doc, want := range map[string]string{
		"XReason: the host is clean.":            "The host is clean.",
		"XReason is True while it works.":        "True while it works.",
		"XReason of a host: see CleanCondition.": "Of a host: see `Clean`.",
		"XReason (Normal): it goes on.":          "It goes on.",
		"XReason: a | b.":                        `A \| b.`,
	} {
		if got := (constant{name: "XReason", doc: doc}).sentence(all); got != want {
			t.Errorf("%q became %q, want %q", doc, got, want)
		}
	}
}

func TestAConstantNeedsADoc(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.go")
	if err := os.WriteFile(file, []byte("package a\n\nconst LostReason = \"Lost\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := constantsOf(file); err == nil || !strings.Contains(err.Error(), "LostReason needs a doc") {
		t.Errorf("a reason without a doc: got error %v", err)
	}
}

// troubleshooting returns the rows of the page by heading: the first cells, without backticks.
func troubleshooting(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "docs/troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("^\\| `([^`]+)` \\|")
	rows, heading := map[string][]string{}, ""
	for _, line := range strings.Split(string(data), "\n") {
		if strings.HasPrefix(line, "#") {
			heading = strings.TrimLeft(line, "# ")
			rows[heading] = nil
		} else if m := row.FindStringSubmatch(line); m != nil {
			rows[heading] = append(rows[heading], m[1])
		}
	}
	return rows
}

// TestTroubleshootingHasEachReason: a heading for each condition, a row for each reason, a row for each Event.
func TestTroubleshootingHasEachReason(t *testing.T) {
	rows := troubleshooting(t)
	var headings, reasons string
	for heading, all := range rows {
		headings += heading + "\n"
		if strings.HasPrefix(heading, "`") {
			reasons += "|" + strings.Join(all, "|") + "|"
		}
	}
	values := map[string]string{}
	for _, g := range conditionGroups {
		all, err := g.constants(root)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			values[c.name] = c.value
			switch {
			case strings.HasSuffix(c.name, "Condition"):
				if !strings.Contains(headings, "`"+c.value+"`") {
					t.Errorf("docs/troubleshooting.md has no heading for condition %s", c.value)
				}
			case c.name == "NoReasonReportedReason": // only in a sentence: no condition of v1beta2 has it
			case !strings.Contains(reasons, "|"+c.value+"|"):
				t.Errorf("docs/troubleshooting.md has no row for reason %s", c.value)
			}
		}
	}
	for _, g := range eventGroups {
		all, err := g.constants(root)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			if c.event() && !slices.Contains(rows["Events"], c.value) {
				t.Errorf("docs/troubleshooting.md has no row for Event %s", c.value)
			}
		}
	}
	pairs := 0
	err := calls(root, func(at token.Position, call *ast.CallExpr) error {
		if name := last(call.Fun); name != "yes" && name != "no" || len(call.Args) < 2 {
			return nil
		}
		condition, reason := values[last(call.Args[0])], values[last(call.Args[1])]
		if condition == "" || reason == "" {
			return nil
		}
		pairs++
		if !slices.Contains(rows["`"+condition+"`"], reason) {
			t.Errorf("%s sets %s with reason %s, which docs/troubleshooting.md lacks there", at, condition, reason)
		}
		return nil
	})
	if err != nil || pairs < 20 {
		t.Errorf("only %d conditions are set with a reason, %v: the pattern no longer fits", pairs, err)
	}
}

// TestTheErrorsAreThoseOfTheCode: string literals of the code contain the parts of each error in
// docs/troubleshooting.md.
func TestTheErrorsAreThoseOfTheCode(t *testing.T) {
	var code strings.Builder
	for _, dir := range []string{"cmd/capstan", "local", "dock", "topology"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			code.Write(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	all := troubleshooting(t)["Errors of the command line"]
	for _, text := range all {
		for _, part := range strings.Split(text, "…") {
			if part = strings.TrimSpace(part); !strings.Contains(code.String(), part) {
				t.Errorf("docs/troubleshooting.md has the error %q, but the code lacks %q", text, part)
			}
		}
	}
	if len(all) < 10 {
		t.Errorf("the page has only %d errors, so the pattern no longer fits", len(all))
	}
}
