package rule

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Main runs the tests of a package and returns the exit status. After a run of all tests it writes the report to path and fails if a rule
// is neither covered nor has a reason, or was skipped. A run of some tests only writes no report.
func Main(m *testing.M, path string) int {
	code := m.Run()
	if !whole() {
		return code
	}
	rules, err := Table()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rule:", err)
		return 1
	}
	mu.Lock()
	r := report(rules, slices.Clone(entries))
	mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		fmt.Fprintln(os.Stderr, "rule:", err)
		return 1
	}
	if err := os.WriteFile(path, r.Text, 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "rule:", err)
		return 1
	}
	for _, missing := range r.Missing {
		fmt.Fprintf(os.Stderr, "rule: no test covers %s: write one that calls rule.Covers, or give the reason in rules.yaml\n", missing)
		code = max(code, 1)
	}
	return code
}

// whole reports whether all tests of the package ran.
func whole() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return false
		}
	}
	return !testing.Short()
}
