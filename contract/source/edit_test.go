package source

import (
	"os"
	"path/filepath"
	"testing"
)

func TestEdit(t *testing.T) {
	for name, test := range map[string]struct{ before, after string }{
		"a plain value":  {"kind: Metadata\na: {b: x}\n", "kind: Metadata\na: {b: \"new\"}\n"},
		"a quoted value": {"kind: Metadata\na: {b: 'x'} # why\n", "kind: Metadata\na: {b: \"new\"} # why\n"},
		"a value after a variable": {
			"a: {c: \"${C:=1}\", b: x}\nkind: Metadata\n", "a: {c: \"${C:=1}\", b: x}\nkind: Metadata\n",
		},
		"a value over several lines": {
			"kind: Metadata\na:\n  b: |\n    x\n    y\n", "kind: Metadata\na:\n  b: |\n    x\n    y\n",
		},
		"a field that is missing":   {"kind: Metadata\na: {c: x}\n", "kind: Metadata\na: {c: x}\n"},
		"a field that is an object": {"kind: Metadata\na: {b: {c: x}}\n", "kind: Metadata\na: {b: {c: x}}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "metadata.yaml")
			if err := os.WriteFile(path, []byte(test.before), 0o640); err != nil {
				t.Fatal(err)
			}
			releases, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			edit := releases[0].Files[0].Objects[0].Edit([]string{"a", "b"}, `"new"`)
			made, err := Apply([]Edit{edit, edit})
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != test.after || (made == 1) != (test.before != test.after) {
				t.Errorf("after %d edits the file is %q, want %q", made, got, test.after)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("the mode of the file is %v (%v)", info.Mode(), err)
			}
		})
	}
}
