package source

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Edit is a change to one line of a file.
type Edit struct {
	// Position is where the old text begins.
	Position
	// Old is the current text, New its replacement.
	Old string `json:"old"`
	New string `json:"new"`
}

// IsZero reports whether there is nothing to change.
func (e Edit) IsZero() bool { return e == Edit{} }

// Edit returns the change that sets a field to another value. It is zero if the field is missing, is not a value on one
// line, or is in a rendered or packed file.
func (o *Object) Edit(path []string, value string) Edit {
	if o.origin != nil || strings.Contains(o.File.Path, "!/") {
		return Edit{}
	}
	node := o.node
	for _, step := range path {
		if _, node = child(node, step); node == nil {
			return Edit{}
		}
	}
	if node.Kind != yaml.ScalarNode || strings.Contains(node.Value, "\n") || node.Anchor != "" {
		return Edit{}
	}
	old := node.Value
	switch node.Style {
	case yaml.DoubleQuotedStyle:
		old = `"` + old + `"`
	case yaml.SingleQuotedStyle:
		old = "'" + old + "'"
	case yaml.LiteralStyle, yaml.FoldedStyle:
		return Edit{}
	}
	return Edit{Position{o.File.Path, node.Line, node.Column}, old, value}
}

// Apply makes changes on disk and returns how many it made. It skips an edit whose old text is no longer there, for
// example because the line contains a variable.
func Apply(edits []Edit) (int, error) {
	files := map[string][]Edit{}
	for _, e := range edits {
		if !e.IsZero() && !slices.Contains(files[e.File], e) {
			files[e.File] = append(files[e.File], e)
		}
	}
	made := 0
	for name, all := range files {
		n, err := applyTo(name, all)
		if err != nil {
			return made, fmt.Errorf("changing %s: %w", name, err)
		}
		made += n
	}
	return made, nil
}

func applyTo(name string, edits []Edit) (int, error) {
	info, err := os.Stat(name)
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	lines := strings.Split(string(text), "\n")
	// Apply from the end, so that earlier edits in the same line keep their position.
	slices.SortFunc(edits, func(a, b Edit) int { return b.Position.Compare(a.Position) })
	made := 0
	for _, e := range edits {
		if e.Line < 1 || e.Line > len(lines) || e.Column < 1 || e.Column > len(lines[e.Line-1])+1 {
			continue
		}
		line := lines[e.Line-1]
		if after, ok := strings.CutPrefix(line[e.Column-1:], e.Old); ok {
			lines[e.Line-1] = line[:e.Column-1] + e.New + after
			made++
		}
	}
	if made == 0 {
		return 0, nil
	}
	return made, os.WriteFile(name, []byte(strings.Join(lines, "\n")), info.Mode().Perm())
}
