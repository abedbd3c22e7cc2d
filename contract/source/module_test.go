package source

import (
	"path/filepath"
	"slices"
	"testing"
)

const foo = "resources: [foo.yaml]\n"

// The bases of a module are found where projects keep them.
func TestOpenFindsTheBasesOfAModule(t *testing.T) {
	for name, c := range map[string]struct {
		files []string // bases, with one definition each
		want  []string
		extra map[string]string
	}{
		"config/default comes before all others": {
			files: []string{"config/default", "config/crd"}, want: []string{"."},
			extra: map[string]string{"go.mod": "module foo.example\n"},
		},
		"config/default needs no go.mod next to it": {
			files: []string{"config/default", "config/crd", "config/manager"}, want: []string{"."},
		},
		"several providers in one module": {
			files: []string{
				"bootstrap/foo/config/default", "bootstrap/foo/config/crd", "core/config/default", "test/foo/config/default",
			},
			want:  []string{"bootstrap/foo/config/default", "core/config/default"},
			extra: map[string]string{"go.mod": "module foo.example\n"},
		},
		"bases below config that are named after types of providers": {
			files: []string{"config/capi/bootstrap", "config/capi/infrastructure", "config/crd/bases", "bootstrap"},
			want:  []string{"config/capi/bootstrap", "config/capi/infrastructure"},
			extra: map[string]string{"go.mod": "module foo.example\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{
				"metadata.yaml": "kind: Metadata\n", "templates/cluster-template.yaml": "kind: Cluster\n",
			}
			for _, base := range c.files {
				files[base+"/kustomization.yaml"], files[base+"/foo.yaml"] = foo, definition
			}
			for file, text := range c.extra {
				files[file] = text
			}
			dir := write(t, files)
			releases, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i, r := range releases {
				below, err := filepath.Rel(dir, r.Path)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, filepath.ToSlash(below))
				wantTemplates := 0
				if i == 0 {
					wantTemplates = 1
				}
				if r.Form != Module || len(r.Of(Metadata)) != 1 || len(r.Of(Template)) != wantTemplates {
					t.Errorf("%s is a %s with %d files", r.Path, r.Form, len(r.Files))
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the releases are %v, want %v", got, c.want)
			}
		})
	}
}

// The reader accepts files that become YAML only after clusterctl has replaced variables.
func TestVariablesThatAreNotYAML(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want any
	}{
		"a variable in a list": {"kind: Foo\nspec: {keys: [${KEYS}]}\n", []any{"${KEYS}"}},
		"a variable in a list, with text": {
			"kind: Foo\nspec: {keys: [\"a-${KEYS}\", ${B} ]}\n", []any{"a-${KEYS}", "${B}"},
		},
		"a default over several lines": {"kind: Foo\nspec:\n${KEYS:-  keys:\n  - a\n  - b\n}\n", []any{"a", "b"}},
		"a default that is ignored": {
			"kind: Foo\nspec:\n  keys: [\"${NAMESPACE:=default}\"]\n", []any{"${NAMESPACE}"},
		},
		"a default within a default": {"kind: Foo\nspec:\n  keys: [ ${KEYS:-${A:-one}} ]\n", []any{"one"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := Reader{}.readFile("cluster-template.yaml", []byte(c.text))
			if f.Problem != nil || len(f.Objects) != 1 {
				t.Fatalf("the file has %d objects, and the problem %+v", len(f.Objects), f.Problem)
			}
			got, _ := f.Objects[0].Get("spec", "keys").([]any)
			if want, _ := c.want.([]any); !slices.Equal(got, want) {
				t.Errorf("keys are %v, want %v", got, want)
			}
			for _, v := range f.Variables {
				if v.Problem != "" {
					t.Errorf("%s: %s", v.Text, v.Problem)
				}
			}
		})
	}
}

// A base that cannot be rendered hides only itself: metadata and templates are still read.
func TestOpenReadsBesideABaseThatCannotBeRendered(t *testing.T) {
	base := map[string]string{"config/default/kustomization.yaml": "resources: [https://foo.example/base]\n"}
	if _, err := Open(write(t, base)); err == nil {
		t.Error("Open returned no error for a base that cannot be rendered, in a directory with nothing else")
	}
	base["metadata.yaml"] = "kind: Metadata\n"
	releases, err := Open(write(t, base))
	if err != nil {
		t.Fatal(err)
	}
	if r := releases[0]; len(releases) != 1 || r.Problem == nil || len(r.Of(Metadata)) != 1 ||
		len(r.Of(Components)) != 0 {
		t.Errorf("the release is %+v", r)
	}
}

func TestGivenVariables(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a value takes the place of a default":                      {"${SIZE:=small}", "large"},
		"a value takes the place of a name":                         {"${SIZE}", "large"},
		"a value is not given, so the default counts":               {"${ZONE:=a}", "a"},
		"a value is empty, so the default counts":                   {"${EMPTY:=a}", "a"},
		"a value is not given and has no default":                   {"${ZONE}", "${ZONE}"},
		"a value is given for a variable in the default of another": {"${ZONE:=${SIZE}}", "large"},
		"a value is given for a variable that clusterctl sets":      {"${CLUSTER_NAME:=x}", "blue"},
		"a value is changed by a function":                          {"${SIZE^^}", "LARGE"},
		"a value is used both changed and unchanged":                {"a-${SIZE/large/big}-${SIZE:=x}", "a-big-large"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Reader{Variables: map[string]string{"SIZE": "large", "CLUSTER_NAME": "blue", "EMPTY": ""}}
			f := r.readFile("cluster-template.yaml", []byte("kind: Foo\nspec: {size: \""+c.text+"\"}\n"))
			if f.Problem != nil || len(f.Objects) != 1 {
				t.Fatalf("the file has %d objects: %+v", len(f.Objects), f.Problem)
			}
			if got := f.Objects[0].Text("spec", "size"); got != c.want {
				t.Errorf("the field is %q, want %q", got, c.want)
			}
		})
	}
}
