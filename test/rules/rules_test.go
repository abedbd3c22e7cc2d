package rules

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/capstan-dev/capstan/runtime/conformance"
)

const root = "../.."

//go:embed rules.tsv
var rulesTable string

//go:embed tests.tsv
var testsTable string

//go:embed reasons.tsv
var reasonsTable string

// rule is one row of the contract.
type rule struct{ id, level, text string }

// table reads lines of fields that tabs separate.
func table(t *testing.T, text string, fields int) [][]string {
	t.Helper()
	var rows [][]string
	for line := range strings.Lines(text) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(row) != fields || slices.Contains(row, "") {
			t.Fatalf("a line does not have %d fields: %q", fields, line)
		}
		rows = append(rows, row)
	}
	return rows
}

var (
	// T-CT-05 is a behaviour test, no rule.
	behaviour = regexp.MustCompile(`\bT-(CT|LH)-\d\d\b`)

	cited    = regexp.MustCompile(`\b(RX|RC|RS|CL|LH|UH|CT)-(\d\d\d?)(?: to (RX|RC|RS|CL|LH|UH|CT)-(\d\d\d?))?\b`)
	testName = regexp.MustCompile(`^(Test|Fuzz|Example|Benchmark)`)
)

// ids lists the rules that a text names; "RX-02 to RX-04" names three.
func ids(text string) []string {
	var all []string
	for _, m := range cited.FindAllStringSubmatch(behaviour.ReplaceAllString(text, ""), -1) {
		first, _ := strconv.Atoi(m[2])
		last := first
		if m[3] == m[1] {
			last, _ = strconv.Atoi(m[4])
		}
		for n := first; n <= last; n++ {
			all = append(all, fmt.Sprintf("%s-%02d", m[1], n))
		}
	}
	return all
}

func TestIDs(t *testing.T) {
	for text, want := range map[string]string{
		"(RX-05)": "RX-05", "(CL-16, CL-17)": "CL-16 CL-17", "(UH-01 to UH-03)": "UH-01 UH-02 UH-03", "T-LH-05: LH-15": "LH-15", "RX-1": "", "XRX-05": "", "T-CT-05: CT-110": "CT-110", "RX-02 to CL-03": "RX-02",
	} {
		if got := strings.Join(ids(text), " "); got != want {
			t.Errorf("%q names %q, want %q", text, got, want)
		}
	}
}

// coverage finds all tests, as "folder.Test", and those that name each rule.
func coverage(t *testing.T) (all map[string]bool, covered map[string][]string) {
	t.Helper()
	all, covered = map[string]bool{}, map[string][]string{}
	files := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "bin" || name == "testdata") || path == filepath.Join(root, "test", "rules") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		files++
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, path, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || !testName.MatchString(function.Name.Name) {
				continue
			}
			start := function.Pos()
			if function.Doc != nil {
				start = function.Doc.Pos()
			}
			text := source[positions.Position(start).Offset:positions.Position(function.End()).Offset]
			test := filepath.ToSlash(folder) + "." + function.Name.Name
			all[test] = true
			for _, id := range ids(string(text)) {
				if !slices.Contains(covered[id], test) {
					covered[id] = append(covered[id], test)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 {
		t.Fatalf("only %d files with tests were found: the test looks in the wrong place", files)
	}
	return all, covered
}

func TestEveryRuleIsCovered(t *testing.T) {
	all, covered := coverage(t)
	for _, row := range table(t, testsTable, 2) {
		for test := range strings.SplitSeq(row[1], ", ") {
			if !all[test] {
				t.Errorf("tests.tsv says that %s covers %s, but there is no such test", test, row[0])
			} else if !slices.Contains(covered[row[0]], test) {
				covered[row[0]] = append(covered[row[0]], test)
			}
		}
	}
	reasons := map[string]string{}
	for _, row := range table(t, reasonsTable, 2) {
		reasons[row[0]] = row[1]
	}
	var rules []rule
	known := map[string]bool{}
	for _, row := range table(t, rulesTable, 3) {
		rules = append(rules, rule{row[0], row[1], row[2]})
		known[row[0]] = true
	}
	for _, id := range slices.Sorted(maps.Keys(covered)) {
		if !known[id] {
			t.Errorf("%s names the rule %s, which does not exist", strings.Join(covered[id], ", "), id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(reasons)) {
		if !known[id] {
			t.Errorf("reasons.tsv names the rule %s, which does not exist", id)
		}
	}
	folder := filepath.Join(root, "bin", "reports")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	reports := map[string][]rule{}
	for _, r := range rules {
		name := "runtime-sdk-rules.txt"
		switch r.id[:strings.Index(r.id, "-")] {
		case "CT":
			name = "clusterctl-rules.txt"
		case "LH":
			name = "lifecycle-rules.txt"
		}
		reports[name] = append(reports[name], r)
	}
	for name, of := range reports {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(report(t, of, covered, reasons)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Every rule that a check of an extension names exists.
func TestChecksNameRulesThatExist(t *testing.T) {
	known := map[string]bool{}
	for _, row := range table(t, rulesTable, 3) {
		known[row[0]] = true
	}
	for _, check := range conformance.Checks() {
		for _, id := range check.Rules {
			if !known[id] {
				t.Errorf("check %q names the rule %s, which does not exist", check.Name, id)
			}
		}
	}
}

// report is a line for each rule, and the totals. A rule without test and reason fails the test.
func report(t *testing.T, rules []rule, covered map[string][]string, reasons map[string]string) string {
	t.Helper()
	var report strings.Builder
	columns := tabwriter.NewWriter(&report, 0, 4, 2, ' ', 0)
	fmt.Fprintln(columns, "RULE\tLEVEL\tVERDICT\tTESTS OR REASON")
	tested := 0
	for _, r := range rules {
		tests := covered[r.id]
		slices.Sort(tests)
		switch {
		case len(tests) > 0:
			tested++
			fmt.Fprintf(columns, "%s\t%s\ttested\t%s\n", r.id, r.level, strings.Join(tests, ", "))
		case reasons[r.id] != "":
			fmt.Fprintf(columns, "%s\t%s\tnot tested\t%s\n", r.id, r.level, reasons[r.id])
		default:
			fmt.Fprintf(columns, "%s\t%s\tMISSING\t%s\n", r.id, r.level, r.text)
			t.Errorf("no test names the %s rule %s: %s", r.level, r.id, r.text)
		}
	}
	if err := columns.Flush(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&report, "\n%d rules, %d tested, %d with a reason\n", len(rules), tested, len(rules)-tested)
	return report.String()
}
