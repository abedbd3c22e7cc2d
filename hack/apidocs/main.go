// Command apidocs writes the API reference from the CustomResourceDefinitions, which are what the API server enforces:
// fields, types, defaults, limits, rules and columns of every version.
//
//	go run ./hack/apidocs config/crd/bases docs/reference/api.md
package main

import (
	"fmt"
	"os"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: apidocs DEFINITIONS-DIRECTORY OUTPUT-FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "apidocs:", err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	definitions, err := read(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, []byte(reference(definitions)), 0o644)
}

// read returns the definitions in a directory, sorted by file name.
func read(directory string) ([]apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(filepath.Join(directory, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no definitions in %s: run make generate", directory)
	}
	var all []apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(data, &crd); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		all = append(all, crd)
	}
	return all, nil
}
