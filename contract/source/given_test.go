package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadVariables(t *testing.T) {
	for name, c := range map[string]struct{ text, want, fails string }{
		"a number stays as it is written":     {"A: 1.30\n", "1.30", ""},
		"a string may be quoted":              {"A: \"true\"\n", "true", ""},
		"a list is refused":                   {"A: [1]\n", "", "A is a list or a map"},
		"a file that is not a map is refused": {"- A\n", "", "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "values.yaml")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			values, err := ReadVariables(file)
			if c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("ReadVariables accepted the file, or refused it for another reason: %v", err)
			}
			if c.fails == "" && (err != nil || values["A"] != c.want) {
				t.Errorf("A is %q, want %q: %v", values["A"], c.want, err)
			}
		})
	}
	if _, err := ReadVariables(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("ReadVariables returned no error for a file that does not exist")
	}
}

func TestUnused(t *testing.T) {
	r := Reader{Variables: map[string]string{"A": "1", "B": "1", "C": "1", "D": "1"}}
	f := r.readFile("cluster-template.yaml", []byte("a: ${A}\nb: ${X:=${B:=${C}}}\n"))
	if got := r.Unused([]*Release{{Files: []*File{f}}}); len(got) != 1 || got[0] != "variable D" {
		t.Errorf("Unused returns %q, want variable D", got)
	}
}

// A file with a Cluster goes to the release that has its class. If no release has it, the file is reported.
func TestGivenClusters(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("metadata.yaml", "kind: Metadata\n")
	write("clusterclass-one.yaml", "kind: ClusterClass\nmetadata: {name: one}\n")
	own := write("own.txt", "kind: Cluster\nspec: {topology: {classRef: {name: one}}}\n")
	others := write("others.txt", "kind: Cluster\nspec: {topology: {class: two}}\n")
	r := Reader{Clusters: []string{own, others}}
	releases, err := r.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := releases[0].Of(Given); len(got) != 1 || got[0].Path != own {
		t.Errorf("the release has %d given files, want only the one with a Cluster of its class", len(got))
	}
	if got := r.Unused(releases); len(got) != 1 || got[0] != "file "+others {
		t.Errorf("Unused returns %q, want the other file", got)
	}
	for _, name := range []string{filepath.Join(dir, "none"), write("broken.txt", "a: [\n")} {
		if _, err := (Reader{Clusters: []string{name}}).Open(dir); err == nil {
			t.Errorf("Open accepted %s", name)
		}
	}
}
