// Package crd embeds the generated CustomResourceDefinitions of Capstan.
package crd

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strings"

	"sigs.k8s.io/yaml"
)

// Files holds bases/*.yaml, one CustomResourceDefinition in each, made by controller-gen from the packages below api.
//
//go:embed bases/*.yaml
var Files embed.FS

// contractLabel is the label, without the contract version, whose value lists the API versions that serve that contract
// (IM-35).
const contractLabel = "cluster.x-k8s.io/"

// ForContract returns the definitions as JSON by file name. With a contract version, such as v1beta1, they carry no
// label of any other one, so that Cluster API uses that contract; a definition that does not serve it carries none.
// Empty leaves all labels.
func ForContract(version string) (map[string][]byte, error) {
	names, err := fs.Glob(Files, "bases/*.yaml")
	if err != nil {
		return nil, err
	}
	definitions := map[string][]byte{}
	for _, name := range names {
		data, err := Files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if definitions[path.Base(name)], err = forContract(data, version); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
	}
	return definitions, nil
}

func forContract(definition []byte, version string) ([]byte, error) {
	if version == "" {
		return yaml.YAMLToJSON(definition)
	}
	var crd map[string]any
	if err := yaml.Unmarshal(definition, &crd); err != nil {
		return nil, err
	}
	metadata, _ := crd["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	maps.DeleteFunc(labels, func(label string, _ any) bool {
		contract, ok := strings.CutPrefix(label, contractLabel)
		return ok && strings.HasPrefix(contract, "v") && contract != version
	})
	// JSON is YAML: this one keeps what Unmarshal made of numbers.
	data, err := yaml.Marshal(crd)
	if err != nil {
		return nil, err
	}
	return yaml.YAMLToJSON(data)
}
