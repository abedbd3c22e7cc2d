package layers

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"strings"
	"testing"
)

const module = "github.com/capstan-dev/capstan"

// allowed lists, for each top directory, the other top directories that it may import. An empty list forbids all of
// them.
var allowed = map[string][]string{
	"api":        {},
	"contract":   {},
	"runtime":    {},
	"internal":   {},
	"image":      {"internal"},
	"templates":  {},
	"config":     {},
	"provider":   {"api"},
	"agent":      {"api", "internal"},
	"extension":  {"runtime", "api", "describe", "internal"},
	"plane":      {"api", "provider", "runtime", "internal", "templates", "config"},
	"dock":       {"internal"},
	"release":    {"templates", "runtime"},
	"topology":   {"api", "internal"},
	"describe":   {"api", "runtime", "topology", "internal"},
	"clusterctl": {"api", "templates", "provider", "describe", "internal"},
	"local":      {"plane", "dock", "image", "provider", "extension", "runtime", "api", "templates", "internal"},
	"cmd": {"contract", "local", "describe", "topology", "release", "clusterctl", "api", "runtime", "internal",
		"templates", "config", "provider", "agent", "extension", "plane", "dock", "image"},
	"test": {"contract", "local", "describe", "topology", "release", "clusterctl", "api", "runtime", "internal",
		"templates", "config", "provider", "agent", "extension", "plane", "dock", "image"},
	"hack": {"contract", "local", "release", "provider", "extension", "runtime", "dock", "test", "agent"},
}

type pkg struct {
	ImportPath string
	Name       string
	Doc        string
	Imports    []string
}

// packages lists the packages of the workspace with their imports.
func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Name,Doc,Imports", "./...", "./api/...", "./contract/...",
		"./runtime/...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("go list: %v\n%s", err, exit.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	var list []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	if len(list) < 5 {
		t.Fatalf("go list found only %d packages: the test looks in the wrong place", len(list))
	}
	return list
}

// top returns the top directory of one of our packages, and false for other packages.
func top(importPath string) (string, bool) {
	rest, ok := strings.CutPrefix(importPath, module+"/")
	first, _, _ := strings.Cut(rest, "/")
	return first, ok
}

func TestImportsFollowTheTable(t *testing.T) {
	for _, p := range packages(t) {
		from, ok := top(p.ImportPath)
		if !ok {
			continue
		}
		may, known := allowed[from]
		if !known {
			t.Errorf("%s: the table lacks directory %q: add its imports and importers here and in docs/architecture.md",
				p.ImportPath, from)
			continue
		}
		for _, imported := range p.Imports {
			to, ok := top(imported)
			if !ok || to == from {
				continue
			}
			if !contains(may, to) {
				t.Errorf("%s imports %s: %s may import only %v", p.ImportPath, imported, from, may)
			}
		}
	}
}

// TestStartersOfAPlaneCarryNoReconciler: a program that starts a plane imports package local, and package local imports
// no reconciler, not even indirectly.
func TestStartersOfAPlaneCarryNoReconciler(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "./local")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	carried := strings.Fields(string(out))
	if !contains(carried, module+"/dock") {
		t.Fatal("go list does not list what package local imports")
	}
	for _, reconcilers := range []string{module + "/plane", module + "/plane/controllers", module + "/provider"} {
		if contains(carried, reconcilers) {
			t.Errorf("package local imports %s: move what only the plane's process needs to local/inside", reconcilers)
		}
	}
}

// TestTheExtensionIsAProcessOfItsOwn: no program that runs controllers contains the extension, and the extension's
// binary contains no controllers.
func TestTheExtensionIsAProcessOfItsOwn(t *testing.T) {
	for program, never := range map[string][]string{
		"./cmd/capstan-manager": {module + "/extension"},
		"./plane/...":           {module + "/extension"},
		"./cmd/capstan-extension": {module + "/plane/controllers", module + "/provider",
			"sigs.k8s.io/cluster-api/core/reconcilers"},
	} {
		cmd := exec.Command("go", "list", "-deps", program)
		cmd.Dir = "../.."
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		carried := strings.Fields(string(out))
		if len(carried) < 100 {
			t.Fatalf("go list lists only %d packages for %s", len(carried), program)
		}
		for _, one := range carried {
			for _, other := range never {
				if one == other || strings.HasPrefix(one, other+"/") {
					t.Errorf("%s contains package %s, which it must not contain", program, one)
				}
			}
		}
	}
	t.Attr("rule", "RX-30")
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range packages(t) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

func TestNoPackageIsNamedAfterNothing(t *testing.T) {
	for _, p := range packages(t) {
		switch path.Base(p.ImportPath) {
		case "pkg", "util", "utils", "common", "helpers", "types", "models":
			t.Errorf("%s: name the package after what it does", p.ImportPath)
		}
	}
}

func TestPublishedModulesHaveNoReplace(t *testing.T) {
	for _, dir := range []string{".", "api", "contract", "runtime"} {
		cmd := exec.Command("go", "mod", "edit", "-json")
		cmd.Dir = path.Join("../..", dir)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		var mod struct{ Replace []any }
		if err := json.Unmarshal(out, &mod); err != nil {
			t.Fatal(err)
		}
		if len(mod.Replace) > 0 {
			t.Errorf("%s/go.mod has replace lines: \"go install\" would refuse the module", dir)
		}
	}
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}
