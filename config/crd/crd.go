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

// Files holds bases/*.yaml, which controller-gen generates from the packages below api: one CustomResourceDefinition in
// each file.
//
//go:embed bases/*.yaml
var Files embed.FS

// contractLabel is the prefix of the label for a contract version. The label's value lists the API versions that
// implement that contract (IM-35).
const contractLabel = "cluster.x-k8s.io/"

// ForContract returns the definitions as JSON, by file name. If version is a contract version, such as v1beta1,
// ForContract removes the labels of all other contract versions, so that Cluster API uses this one. A definition that
// does not implement this contract is left without a contract label. If version is empty, all labels stay.
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
	// The definition becomes YAML and then JSON, with the package that parsed it: this leaves numbers as Unmarshal read
	// them.
	data, err := yaml.Marshal(crd)
	if err != nil {
		return nil, err
	}
	return yaml.YAMLToJSON(data)
}
