package source

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: foomachines.infrastructure.foo.example
`

const account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: manager}\n"

// write writes files below a new directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOpen(t *testing.T) {
	files := map[string]string{
		"infrastructure-foo/v1.2.3/metadata.yaml":                  "kind: Metadata\n",
		"infrastructure-foo/v1.2.3/infrastructure-components.yaml": definition,
		"infrastructure-foo/v1.2.3/cluster-template-small.yaml":    "kind: Cluster\n",
		"infrastructure-foo/v1.2.3/clusterclass-foo.yaml":          "kind: ClusterClass\n",
		"infrastructure-foo/v1.2.3/README.md":                      "not read",
		"base/kustomization.yaml":                                  "namePrefix: my-\nresources: [account.yaml]\n",
		"base/account.yaml":                                        "# one\n" + account,
		"module/go.mod":                                            "module foo.example\n",
		"module/metadata.yaml":                                     "kind: Metadata\n",
		"module/templates/cluster-template.yaml":                   "kind: Cluster\n",
		"module/config/default/kustomization.yaml":                 "resources: [../crd]\n",
		"module/config/crd/kustomization.yaml":                     "resources: [foo.yaml]\n",
		"module/config/crd/foo.yaml":                               "---\n" + definition,
	}
	releases, err := Open(write(t, files))
	if err != nil {
		t.Fatal(err)
	}
	if len(releases) != 3 {
		t.Fatalf("there are %d releases, want 3", len(releases))
	}
	base, repository, module := releases[0], releases[1], releases[2]
	if repository.Form != Repository || repository.Label != "infrastructure-foo" || repository.Version != "v1.2.3" ||
		len(repository.Files) != 4 || repository.Type() != Infrastructure {
		t.Errorf("the release is %+v of type %q", repository, repository.Type())
	}
	for _, role := range []Role{Metadata, Components, Template, Class} {
		if len(repository.Of(role)) != 1 {
			t.Errorf("the release has %d files of role %s, want 1", len(repository.Of(role)), role)
		}
	}
	manager := base.Files[0].Objects[0]
	if got := manager.At("metadata", "name"); base.Form != Base || manager.Name() != "my-manager" || got.Line != 2 ||
		filepath.Base(got.File) != "account.yaml" {
		t.Errorf("the base renders %s from %s", manager, got)
	}
	if got := module.Files[0].Definitions()[0].At("spec"); module.Form != Module || len(module.Files) != 3 ||
		filepath.Base(got.File) != "foo.yaml" || got.Line != 2 {
		t.Errorf("the module is %+v, its definition is at %s", module, got)
	}
	if manager.Get("metadata", "annotations") != nil {
		t.Errorf("the rendered object has annotations that the base does not have: %v", manager.Value)
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a directory without a release": {map[string]string{"a.yaml": "kind: ConfigMap\n"}, "there is no release"},
		"a base that needs the network": {
			map[string]string{"kustomization.yaml": "resources: [https://foo.example/base]\n"}, "not on this machine",
		},
		"a base that needs a git host": {
			map[string]string{"kustomization.yaml": "resources: [foo.example/org/repo]\n"}, "not on this machine",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(write(t, test.files))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestOpenArchive(t *testing.T) {
	dir := t.TempDir()
	zipped, tarred := filepath.Join(dir, "foo.zip"), filepath.Join(dir, "foo.tar.gz")
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	w, err := z.Create("foo-1/infrastructure-components.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(definition)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for path, data := range map[string][]byte{
		zipped: archive.Bytes(), tarred: tarball(t, "./foo-1/infrastructure-components.yaml"),
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		releases, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got := releases[0].Files[0].Objects[0].At("kind").String()
		if want := path + "!/foo-1/infrastructure-components.yaml:2:1"; got != want {
			t.Errorf("the object is at %s, want %s", got, want)
		}
	}
	bad := filepath.Join(dir, "bad.tgz")
	if err := os.WriteFile(bad, tarball(t, "../infrastructure-components.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(bad); err == nil || !strings.Contains(err.Error(), "leads out of it") {
		t.Errorf("an archive with a path that leads out of it: the error is %v", err)
	}
}

// tarball returns a compressed archive with one definition.
func tarball(t *testing.T, name string) []byte {
	t.Helper()
	var out bytes.Buffer
	gz := gzip.NewWriter(&out)
	w := tar.NewWriter(gz)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(definition))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(definition)); err != nil {
		t.Fatal(err)
	}
	for _, closer := range []interface{ Close() error }{w, gz} {
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestPositions(t *testing.T) {
	f := Reader{}.readFile("a.yaml",
		[]byte("a: 1\n---\n# two\nkind: Foo\nspec:\n  list:\n  - name: x\n    port: ${PORT:=80}\n"))
	o := f.Objects[1]
	for want, path := range map[string][]string{
		"a.yaml:4:1": nil,
		"a.yaml:8:5": {"spec", "list", "0", "port"},
		"a.yaml:7:5": {"spec", "list", "0", "missing"},
		"a.yaml:5:1": {"spec", "missing"},
	} {
		if got := o.At(path...).String(); got != want {
			t.Errorf("%v is at %s, want %s", path, got, want)
		}
	}
	if got := o.Get("spec", "list", "0", "port"); got != int64(80) {
		t.Errorf("the default is %v (%T), want the number 80", got, got)
	}
	if bad := (Reader{}).readFile("b.yaml", []byte("a: 1\nb: [\n")); bad.Problem == nil || bad.Problem.At.Line == 0 {
		t.Errorf("a file that is not YAML has the problem %+v", bad.Problem)
	}
}

func TestVariables(t *testing.T) {
	for text, want := range map[string]Variable{
		"${A}":         {Name: "A"},
		"${A:=b}":      {Name: "A", Operator: ":=", Default: "b", HasDefault: true},
		"${A:-b}":      {Name: "A", Operator: ":-", Default: "b", HasDefault: true},
		`${A:=""}`:     {Name: "A", Operator: ":=", Default: `""`, HasDefault: true},
		"${A:=}":       {Name: "A", Operator: ":=", HasDefault: true},
		"${A:=${B}}":   {Name: "A", Operator: ":=", Default: "${B}", HasDefault: true},
		"${ A }":       {Name: "A", Blanks: true},
		"${A/x/y}":     {Name: "A", Operator: "/"},
		"${A$B}":       {Name: "A", Problem: "a name cannot be made of another variable"},
		"${}":          {Problem: "there is no name of a variable"},
		"${A b}":       {Name: "A", Blanks: true, Problem: "what follows the name is not in the grammar"},
		"${A:=b # end": {Problem: "the brace is not closed"},
	} {
		all := variables("f", "x: "+text+"\n")
		if len(all) != 1 {
			t.Errorf("%s has %d variables, want 1", text, len(all))
			continue
		}
		got := all[0]
		if got.At.Column != 4 {
			t.Errorf("%s begins at column %d, want 4", text, got.At.Column)
		}
		got.At, got.Text, got.begin, got.end = Position{}, "", 0, 0
		if got != want {
			t.Errorf("%s is %+v, want %+v", text, got, want)
		}
	}
	if all := variables("f", "$${A} $(B) $C"); len(all) != 0 {
		t.Errorf("text without a variable is read as the variables %v", all)
	}
}
