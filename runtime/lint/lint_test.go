package lint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/runtime/rules"
)

const hooks = `package hooks

import "k8s.io/apimachinery/pkg/runtime/schema"

var GroupVersion = schema.GroupVersion{Group: "hooks.example.org", Version: "v1"}

type Request struct {
	Host string ` + "`json:\"host\"`" + `
	Zone string ` + "`json:\"zone,omitempty\"`" + `
}

type Response struct {
	Status string ` + "`json:\"status\"`" + `
}

func BeforePowerOff(*Request, *Response) {}
`

// rack is an additional field.
const rack = "\tRack string `json:\"rack,omitempty\"`\n"

// module writes a module with one package of hooks to a directory.
func module(t *testing.T, directory, text string) {
	t.Helper()
	for name, text := range map[string]string{
		"go.mod": "module example.org/provider\n\ngo 1.26\n", "hooks/hooks.go": text,
	} {
		path := filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRun(t *testing.T) {
	directory := t.TempDir()
	o := Options{Module: directory, Package: "hooks", Lock: filepath.Join(directory, "hooks.lock.json")}
	module(t, directory, hooks)
	var none *NoLockError
	if _, err := Run(t.Context(), o); !errors.As(err, &none) || none.Path != o.Lock {
		t.Fatalf("without a lock file: %v", err)
	}
	o.MayBeFirst = true
	report, err := Run(t.Context(), o)
	if err != nil || report.Findings == nil || len(report.Findings) > 0 || report.Hooks() != 1 ||
		report.Package != "example.org/provider/hooks" {
		t.Fatalf("the first time: %+v, %v", report, err)
	}
	if err := report.WriteLock(o.Lock, "v1.2"); err != nil {
		t.Fatal(err)
	}
	o.MayBeFirst = false
	for name, c := range map[string]struct {
		text   string
		breaks bool
	}{
		"nothing changed":     {hooks, false},
		"a type changed":      {strings.Replace(hooks, "Zone string", "Zone int64", 1), true},
		"a field was added":   {strings.Replace(hooks, "\tZone", rack+"\tZone", 1), false},
		"a field was removed": {strings.Replace(hooks, "\tZone string `json:\"zone,omitempty\"`\n", "", 1), true},
	} {
		t.Run(name, func(t *testing.T) {
			module(t, directory, c.text)
			report, err := Run(t.Context(), o)
			if err != nil || rules.Breaks(report.Findings) != c.breaks || report.Before != o.Lock {
				t.Errorf("got %+v, %v", report, err)
			}
		})
	}
	earlier := t.TempDir()
	module(t, earlier, strings.Replace(hooks, "Zone string", "Zone int64", 1))
	module(t, directory, hooks)
	o.Against = earlier
	if report, err := Run(t.Context(), o); err != nil || !rules.Breaks(report.Findings) || report.Before != earlier {
		t.Errorf("against another release: %+v, %v", report, err)
	}
}

func TestCutRelease(t *testing.T) {
	for name, c := range map[string]struct{ name, module, pkg string }{
		"a release":                      {"example.org/a@v1.0.0", "example.org/a@v1.0.0", "hooks"},
		"a release with its own package": {"example.org/a@v1.0.0/old/hooks", "example.org/a@v1.0.0", "old/hooks"},
		"a directory":                    {"../a/b", "../a/b", "hooks"},
		"slashes before the @":           {"example.org/a/b@v1", "example.org/a/b@v1", "hooks"},
	} {
		t.Run(name, func(t *testing.T) {
			if module, pkg := cutRelease(c.name, "hooks"); module != c.module || pkg != c.pkg {
				t.Errorf("got %q, %q", module, pkg)
			}
		})
	}
}
