package schema_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/schema"
)

// hooksDirectory returns the directory of the hooks in the release that we are built with.
func hooksDirectory(t *testing.T) string {
	t.Helper()
	const module = "sigs.k8s.io/cluster-api/api"
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	m, err := schema.OpenModule(ctx, module+"@"+version(t, module))
	if err != nil {
		t.Fatal(err)
	}
	directory, err := m.Locate(ctx, module+"/runtime/hooks/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(directory)
}

// Cluster API's hooks are below a directory runtime. Each version has a directory of its own, which contains the
// version's group version and types.
func TestHooksHaveADirectoryForEachVersion(t *testing.T) {
	directory := hooksDirectory(t)
	if !strings.HasSuffix(filepath.ToSlash(directory), "/runtime/hooks") {
		t.Errorf("hooks are in %s", directory)
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, entry := range entries {
		if entry.IsDir() {
			found[entry.Name()] = true
		}
	}
	for _, d := range hook.ClusterAPI().All() {
		if !found[d.ID.Version] {
			t.Errorf("version %s of hook %s has no directory: there are %v", d.ID.Version, d.ID, found)
		}
	}
	t.Attr("rule", "RS-11")
	for version := range found {
		group, err := os.ReadFile(filepath.Join(directory, version, "groupversion_info.go"))
		if err != nil || !strings.Contains(string(group), "GroupVersion = schema.GroupVersion{Group:") {
			t.Errorf("version %s defines no group version: %v", version, err)
		}
		types, err := filepath.Glob(filepath.Join(directory, version, "*_types.go"))
		if err != nil || len(types) == 0 {
			t.Errorf("version %s has no types: %v", version, err)
		}
	}
	if got := runtimehooksv1.GroupVersion.Version; got != filepath.Base(directoryOf(t, directory)) {
		t.Errorf("the group version is %s in the directory %s", got, directoryOf(t, directory))
	}
	t.Attr("rule", "RS-12")
}

// directoryOf returns the directory of the only published version.
func directoryOf(t *testing.T, hooks string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(hooks, "v*"))
	if err != nil || len(all) != 1 {
		t.Fatalf("versions are %s, %v: compare each of them", all, err)
	}
	return all[0]
}

// Requests and responses are plain Go types: each field has a JSON tag, each type a marker and a generated deep copy.
// Our own hooks need a conversion as soon as there are two versions, which hook.NewCatalog enforces.
func TestTypesArePlainGo(t *testing.T) {
	directory := directoryOf(t, hooksDirectory(t))
	files, err := filepath.Glob(filepath.Join(directory, "*_types.go"))
	if err != nil {
		t.Fatal(err)
	}
	fields := 0
	marked := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			declaration, ok := node.(*ast.GenDecl)
			if !ok || declaration.Tok != token.TYPE {
				return true
			}
			text := ""
			for _, group := range file.Comments {
				if group == declaration.Doc {
					text = commentText(group)
				}
			}
			for _, spec := range declaration.Specs {
				s, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				marked[s.Name.Name] = strings.Contains(text, "+kubebuilder:object:root=true")
				structure, ok := s.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, field := range structure.Fields.List {
					fields++
					if field.Tag == nil || reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json") == "" {
						t.Errorf("%s: a field of %s has no JSON tag", filepath.Base(name), s.Name.Name)
					}
				}
			}
			return true
		})
	}
	if fields < 50 {
		t.Fatalf("only %d fields were found: the test looks in the wrong place", fields)
	}
	about, err := os.ReadFile(filepath.Join(directory, "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, marker := range []string{"+kubebuilder:object:generate=true", "+k8s:openapi-gen=true"} {
		if !strings.Contains(string(about), "\n// "+marker+"\n") {
			t.Errorf("the package has no marker %s", marker)
		}
	}
	copies, err := os.ReadFile(filepath.Join(directory, "zz_generated.deepcopy.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range hook.ClusterAPI().All() {
		for kind, object := range map[string]runtime.Object{d.RequestKind: d.NewRequest(), d.ResponseKind: d.NewResponse()} {
			if !strings.Contains(string(copies), "func (in *"+kind+") DeepCopyObject() runtime.Object") ||
				!marked[kind] {
				t.Errorf("%s has no generated copy, or no marker for one: %t", kind, marked[kind])
			}
			if copied := object.DeepCopyObject(); copied == object || reflect.TypeOf(copied) != reflect.TypeOf(object) {
				t.Errorf("a copy of %T is %T", object, copied)
			}
		}
	}
	t.Attr("rule", "RS-13")
}

// commentText returns all of a comment, with its markers.
func commentText(group *ast.CommentGroup) string {
	var text strings.Builder
	for _, line := range group.List {
		text.WriteString(line.Text + "\n")
	}
	return text.String()
}
