//go:build linux

package attack

import (
	"os"
	"strings"
	"testing"
)

// TestModelNamesTheBoundaries: the threat model and the attempts name the same boundaries.
func TestModelNamesTheBoundaries(t *testing.T) {
	data, err := os.ReadFile("../../docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(data), "\n## Boundaries\n")
	written := map[string]bool{}
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.TrimSpace(cells[1]) == "Boundary" || strings.HasPrefix(cells[1], "---") {
			continue
		}
		written[strings.TrimSpace(cells[1])] = false
	}
	for _, a := range all() {
		if _, ok := written[a.boundary]; !ok {
			t.Errorf("docs/threat-model.md has no boundary %q", a.boundary)
		}
		written[a.boundary] = true
	}
	for boundary, attacked := range written {
		if !attacked {
			t.Errorf("docs/threat-model.md has boundary %q, which no attempt attacks", boundary)
		}
	}
}
