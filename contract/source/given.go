package source

import (
	"fmt"
	"maps"
	"slices"

	"github.com/drone/envsubst/v2"
	"go.yaml.in/yaml/v3"
)

// given returns what clusterctl makes of a use of a variable whose value is given: that may change it, for example to
// small letters. The second result reports whether there is a value.
func (r Reader) given(v Variable) (string, bool) {
	if r.Variables[v.Name] == "" || v.Problem != "" {
		return "", false
	}
	text, err := envsubst.Eval(v.Text, func(name string) string { return r.Variables[name] })
	return text, err == nil
}

// ReadVariables reads a file of values by name, as clusterctl's configuration has them: YAML with one line for each.
func ReadVariables(name string) (map[string]string, error) {
	text, err := readBounded(name)
	if err != nil {
		return nil, fmt.Errorf("reading variables: %w", err)
	}
	var nodes map[string]yaml.Node
	if err := yaml.Unmarshal(text, &nodes); err != nil {
		return nil, fmt.Errorf("reading variables from %s: %w", name, err)
	}
	values := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(nodes)) {
		node := nodes[key]
		if node.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("reading variables from %s: %s is a list or a map: write a text", name, key)
		}
		values[key] = node.Value // as it is written: 1.30 is not 1.3
	}
	return values, nil
}

// Unused returns the names of given variables that no file of some releases uses, sorted.
func (r Reader) Unused(releases []*Release) []string {
	unused := maps.Clone(r.Variables)
	for _, release := range releases {
		for _, f := range release.Files {
			uses := f.Variables
			for len(uses) > 0 { // a default may use others
				delete(unused, uses[0].Name)
				uses = append(uses[1:len(uses):len(uses)], variables("", uses[0].Default)...)
			}
		}
	}
	return slices.Sorted(maps.Keys(unused))
}
