package source

import (
	"fmt"
	"maps"
	"slices"

	"github.com/drone/envsubst/v2"
	"go.yaml.in/yaml/v3"
)

// given evaluates a use of a variable whose value the user set, as clusterctl does. Evaluation may change the value,
// for example to lower case. The second result reports whether there is a value.
func (r Reader) given(v Variable) (string, bool) {
	if r.Variables[v.Name] == "" || v.Problem != "" {
		return "", false
	}
	text, err := envsubst.Eval(v.Text, func(name string) string { return r.Variables[name] })
	return text, err == nil
}

// ReadVariables reads a file with the values of variables in the form of clusterctl's configuration: a YAML map with
// one variable per line.
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
			return nil, fmt.Errorf("reading variables from %s: %s is a list or a map, but must be a string", name, key)
		}
		values[key] = node.Value // as written: 1.30 is not 1.3
	}
	return values, nil
}

// give adds each file with Clusters to the releases that have their classes.
func (r Reader) give(releases []*Release) error {
	for _, name := range r.Clusters {
		f, err := r.openFile(name)
		if err != nil {
			return fmt.Errorf("reading Clusters: %w", err)
		}
		if f.Problem != nil {
			return fmt.Errorf("reading Clusters from %s: %s", f.Problem.At, f.Problem.Message)
		}
		f.Role = Given
		for _, release := range releases {
			if slices.ContainsFunc(f.Objects, release.hasClassOf) {
				release.Files = append(release.Files, f)
			}
		}
	}
	return nil
}

// ClassOf returns the name of a Cluster's ClusterClass, or "" if it has none.
func (o *Object) ClassOf() string {
	if name := o.Text("spec", "topology", "classRef", "name"); name != "" {
		return name
	}
	return o.Text("spec", "topology", "class")
}

// hasClassOf reports whether a release contains the ClusterClass of a Cluster.
func (r *Release) hasClassOf(cluster *Object) bool {
	name := cluster.ClassOf()
	for _, f := range append(r.Of(Class), r.Of(Template)...) {
		if name != "" && slices.ContainsFunc(f.Objects, func(o *Object) bool {
			return o.Kind() == "ClusterClass" && o.Name() == name
		}) {
			return true
		}
	}
	return false
}

// Unused returns what the user passed in and the releases do not use: variables, sorted, and files with Clusters.
func (r Reader) Unused(releases []*Release) []string {
	variables, files := maps.Clone(r.Variables), slices.Clone(r.Clusters)
	for _, release := range releases {
		for _, f := range release.Files {
			files = slices.DeleteFunc(files, func(name string) bool { return f.Role == Given && f.Path == name })
			unsetUsed(variables, f.Variables)
		}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		all = append(all, "variable "+name)
	}
	for _, name := range files {
		all = append(all, "file "+name)
	}
	return all
}

// unsetUsed removes the variables that are used, including uses in defaults.
func unsetUsed(given map[string]string, uses []Variable) {
	for _, use := range uses {
		delete(given, use.Name)
		unsetUsed(given, variables("", use.Default))
	}
}
