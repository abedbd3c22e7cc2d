package verify

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/contract/source"
	"github.com/capstan-dev/capstan/release"
)

const (
	version    = "v0.1.0"
	directory  = "infrastructure-capstan/" + version
	components = "infrastructure-components.yaml"
)

// mutant is a row of a table of mutants.
type mutant struct {
	Release   string   `json:"release"`
	Against   bool     `json:"against"`
	Check     string   `json:"check"`
	Rule      string   `json:"rule"`
	Also      []string `json:"also"`
	File      string   `json:"file"`
	Object    string   `json:"object"`
	Kind      string   `json:"kind"`
	At        string   `json:"at"`
	Set       any      `json:"set"`
	Remove    bool     `json:"remove"`
	Text      string   `json:"text"`
	With      string   `json:"with"`
	Directory string   `json:"directory"`
	// Rename renames files.
	Rename map[string]string `json:"rename"`
}

func readMutants(t *testing.T) []mutant {
	t.Helper()
	names, err := filepath.Glob("mutants*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("there is no table of mutants: %v", err)
	}
	var all []mutant
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var rows []mutant
		if err := yaml.UnmarshalStrict(data, &rows); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, rows...)
	}
	return all
}

// small returns a small provider from testdata that was written for these tests. The result maps file names to
// contents.
func small(t *testing.T, label string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", label, "*.yaml"))
	if err != nil || len(names) == 0 {
		t.Fatalf("there is no provider %s: %v", label, err)
	}
	files := map[string]string{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = string(data)
	}
	return files
}

// providerType returns the type in a provider label.
func providerType(label string) string {
	for _, known := range source.Types() {
		if strings.HasPrefix(label, string(known)+"-") {
			return string(known)
		}
	}
	return ""
}

// ours returns the release of our infrastructure provider with one of its two variants of components. The result maps
// file names to contents.
func ours(t *testing.T) map[string]string {
	t.Helper()
	made, err := release.Repository(release.Options{
		Version: version, ImagePrefix: "registry.example/capstan", Source: "../..",
	})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for name, data := range made {
		if path.Dir(name) == directory && path.Base(name) != "infrastructure-components-own-certificates.yaml" {
			files[path.Base(name)] = string(data)
		}
	}
	return files
}

// write writes files to a directory of a new repository, and returns the directory.
func write(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	dir = filepath.Join(t.TempDir(), filepath.FromSlash(dir))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// apply returns the files of a release after the mutant's changes. If nothing changed, it returns an error.
func (m mutant) apply(files map[string]string) (map[string]string, error) {
	files = maps.Clone(files)
	name := m.File
	switch {
	case name == "" && m.Release != "":
		name = providerType(m.Release) + "-components.yaml"
	case name == "":
		name = components
	}
	before := files[name]
	switch {
	case m.Directory != "":
		return files, nil
	case len(m.Rename) > 0:
		for from, to := range m.Rename {
			files[to] = files[from]
			delete(files, from)
		}
		return files, nil
	case m.Object != "":
		text, err := m.change(before)
		if err != nil {
			return nil, err
		}
		files[name] = text
	case m.Remove:
		delete(files, name)
	default:
		files[name] = strings.Replace(before, m.Text, m.With, 1)
	}
	if files[name] == before {
		return nil, fmt.Errorf("the mutant does not change %s", name)
	}
	return files, nil
}

// change returns a text with one of its objects changed or removed.
func (m mutant) change(text string) (string, error) {
	documents := strings.Split(text, "\n---\n")
	for i, document := range documents {
		if !strings.Contains(document, "\n  name: "+m.Object) {
			continue
		}
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return "", err
		}
		name, _, _ := strings.Cut(fmt.Sprint(object["metadata"].(map[string]any)["name"]), ".")
		if name != m.Object || m.Kind != "" && object["kind"] != m.Kind {
			continue
		}
		if m.At == "" && m.Remove {
			return strings.Join(append(documents[:i:i], documents[i+1:]...), "\n---\n"), nil
		}
		changed := m.Set
		if m.At != "" {
			var err error
			if changed, err = m.set(object, strings.Split(m.At, "/")[1:]); err != nil {
				return "", err
			}
		}
		data, err := yaml.Marshal(changed)
		documents[i] = string(data)
		return strings.Join(documents, "\n---\n"), err
	}
	return "", fmt.Errorf("there is no %s %s", m.Kind, m.Object)
}

// set returns a value with the field at a path set or removed.
func (m mutant) set(value any, steps []string) (any, error) {
	step := strings.ReplaceAll(steps[0], "~1", "/")
	switch v := value.(type) {
	case map[string]any:
		if len(steps) > 1 {
			below, err := m.set(v[step], steps[1:])
			v[step] = below
			return v, err
		}
		if _, ok := v[step]; m.Remove && !ok {
			return nil, fmt.Errorf("there is no %s to remove", m.At)
		}
		if delete(v, step); !m.Remove {
			v[step] = m.Set
		}
		return v, nil
	case []any:
		i, err := strconv.Atoi(step)
		if err != nil || i >= len(v) {
			return nil, fmt.Errorf("there is no %s", m.At)
		}
		if len(steps) > 1 {
			v[i], err = m.set(v[i], steps[1:])
			return v, err
		}
		if m.Remove {
			return append(v[:i:i], v[i+1:]...), nil
		}
		v[i] = m.Set
		return v, nil
	}
	return nil, fmt.Errorf("%s leads nowhere at %q", m.At, step)
}
