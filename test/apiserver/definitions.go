package apiserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// Capstan returns the CustomResourceDefinitions of Capstan.
func Capstan() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return definitions(filepath.Join(Root(), "config", "crd", "bases"), nil)
}

// Core returns the definitions of Cluster API's core with these plurals, or all definitions if there are no plurals.
// The API server can't convert between their versions: only the newest version may be used.
func Core(plurals ...string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	dir, err := Module("sigs.k8s.io/cluster-api")
	if err != nil {
		return nil, err
	}
	return definitions(filepath.Join(dir, "core", "config", "crd", "bases"), plurals)
}

// Kubeadm returns the definitions of Cluster API's kubeadm providers. Again, only the newest version may be used.
func Kubeadm() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	dir, err := Module("sigs.k8s.io/cluster-api")
	if err != nil {
		return nil, err
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, provider := range []string{"bootstrap", "controlplane"} {
		crds, err := definitions(filepath.Join(dir, provider, "kubeadm", "config", "crd", "bases"), nil)
		if err != nil {
			return nil, err
		}
		all = append(all, crds...)
	}
	return all, nil
}

// Module returns the directory of a Go module that this one requires.
func Module(path string) (string, error) {
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path)
	cmd.Dir = Root()
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("finding module %s: %w: %s", path, err, exit.Stderr)
	} else if err != nil {
		return "", fmt.Errorf("finding module %s: %w", path, err)
	}
	return strings.TrimSpace(string(out)), nil
}

func definitions(dir string, plurals []string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var found []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(data, crd); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if len(plurals) == 0 || slices.Contains(plurals, crd.Spec.Names.Plural) {
			found = append(found, crd)
		}
	}
	if len(found) == 0 || len(plurals) > 0 && len(found) != len(plurals) {
		return nil, fmt.Errorf("%d definitions %v in %s: run make generate", len(found), plurals, dir)
	}
	return found, nil
}
