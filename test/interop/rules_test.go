package interop

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/contract"
)

// TestRulesOfTheRuntimeSDKAreThoseOfTheCatalogue: the rules in runtime/RULES.md match package contract.
func TestRulesOfTheRuntimeSDKAreThoseOfTheCatalogue(t *testing.T) {
	text, err := os.ReadFile("../../runtime/RULES.md")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	row := regexp.MustCompile(`(?m)^- \*\*([A-Z]+-\d\d)\*\*((?:.|\n  )*)`)
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		said[m[1]] = strings.Join(strings.Fields(m[2]), " ")
	}
	if len(said) < 50 {
		t.Fatalf("only %d rules were found", len(said))
	}
	for id, got := range said {
		var want []string
		if strings.HasPrefix(id, "D-") {
			for _, d := range contract.Decisions() {
				if d.ID == id {
					want = []string{d.Finding, d.Reading}
				}
			}
		} else if rule, ok := contract.Find(id); ok {
			want = []string{string(rule.Level) + ", " + string(rule.Of), rule.Text, rule.Forms[contract.Published], rule.Source}
		}
		if want == nil {
			t.Errorf("package contract has no rule %s", id)
		}
		for _, part := range want {
			if part = strings.Join(strings.Fields(part), " "); part != "as stated" && !strings.Contains(got, part) {
				t.Errorf("%s: RULES.md says %q, which lacks the text of package contract: %q", id, got, part)
			}
		}
	}
}
