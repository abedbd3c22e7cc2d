//go:build linux

package plane

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/templates"
)

func TestParseSeed(t *testing.T) {
	cases := map[string]struct {
		documents []string
		kinds     string
		want      string
	}{
		"several documents in several files": {
			documents: []string{
				"---\n{apiVersion: v1, kind: A, metadata: {name: a}}\n---\n# nothing\n---\n" +
					"{apiVersion: v1, kind: B, metadata: {name: b}}\n", "{apiVersion: v1, kind: C, metadata: {name: c}}",
			}, kinds: "A B C",
		},
		"empty documents": {documents: []string{"", "---\n"}},
		"an object without a name": {
			documents: []string{"{apiVersion: v1, kind: A}"}, want: "no apiVersion, kind or name",
		},
		"a document that is not YAML": {documents: []string{"{"}, want: "reading the objects"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var documents [][]byte
			for _, d := range c.documents {
				documents = append(documents, []byte(d))
			}
			objects, err := parseSeed(documents)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got error %v, want another one", err)
				}
				return
			}
			var kinds []string
			for _, o := range objects {
				kinds = append(kinds, o.GetKind())
			}
			if got := strings.Join(kinds, " "); err != nil || got != c.kinds {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestTheLocalClassCanBeSeeded(t *testing.T) {
	objects, err := parseSeed([][]byte{templates.Local})
	if err != nil || len(objects) == 0 || objects[0].GetName() != templates.LocalClass {
		t.Errorf("got %d objects, %v", len(objects), err)
	}
}
