package templates

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestTemplatesOfClassesNeverChange: an existing template can't be changed, so an upgrade can't apply a ClusterClass
// whose template has new content under its old name. testdata/templates.yaml records the content of each name. To
// change a template, choose another name for it and add a line; no line there may ever change.
func TestTemplatesOfClassesNeverChange(t *testing.T) {
	data, err := os.ReadFile("testdata/templates.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var known map[string]string
	if err := yaml.UnmarshalStrict(data, &known); err != nil {
		t.Fatal(err)
	}
	files, err := fs.Glob(Files, "clusterclass-*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no ClusterClasses: %v", err)
	}
	found := 0
	for _, file := range files {
		text, err := fs.ReadFile(Files, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			var o struct {
				Kind     string
				Metadata struct{ Name string }
				Spec     any
			}
			if err := yaml.Unmarshal(document, &o); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if !strings.HasSuffix(o.Kind, "Template") {
				continue
			}
			found++
			name, is := o.Kind+" "+o.Metadata.Name, sum(t, o.Spec)
			if known[name] != is {
				t.Errorf("%s: the content of %s changed: its checksum is %s, but was %q: choose another name", file, name, is,
					known[name])
			}
		}
	}
	if found == 0 {
		t.Error("no ClusterClass has templates")
	}
}

// sum identifies content regardless of its format and comments.
func sum(t *testing.T, content any) string {
	t.Helper()
	text, err := yaml.Marshal(content) // with sorted keys
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(text)
	return hex.EncodeToString(hash[:8])
}

func TestSum(t *testing.T) {
	var one, two any
	for text, into := range map[string]*any{"{a: 1, b: 2}": &one, "b: 2 # two\na: 1": &two} {
		if err := yaml.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	if sum(t, one) != sum(t, two) || sum(t, one) == sum(t, fmt.Sprint(one)) {
		t.Errorf("sums %s of %v, %s of %v", sum(t, one), one, sum(t, two), two)
	}
}
