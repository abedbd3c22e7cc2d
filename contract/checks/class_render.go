package checks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/Masterminds/sprig/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"
)

// values are variables by name, in the types of JSON.
type values map[string]any

// lookup returns the value at a path such as a.b[0]. The second result reports whether there is one.
func (v values) lookup(path string) (any, bool) {
	var value any = map[string]any(v)
	for _, step := range fieldPath(path) {
		switch in := value.(type) {
		case map[string]any:
			below, ok := in[step]
			if !ok {
				return nil, false
			}
			value = below
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(in) {
				return nil, false
			}
			value = in[i]
		default:
			return nil, false
		}
	}
	return value, true
}

// parseTemplate parses a patch's template with the functions that Cluster API provides.
func parseTemplate(text string) (*template.Template, error) {
	return template.New("patch").Funcs(sprig.HermeticTxtFuncMap()).Parse(text)
}

// render renders a template with variables and parses the result as YAML.
func (v values) render(text string) (any, error) {
	parsed, err := parseTemplate(text)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, map[string]any(v)); err != nil {
		return nil, err
	}
	var value any
	return value, yaml.Unmarshal(out.Bytes(), &value)
}

// used returns the paths of variables that a template reads at its top level. Inside the actions "range" and "with",
// paths are relative to something else.
func used(text string) []string {
	parsed, err := parseTemplate(text)
	if err != nil || parsed.Tree == nil {
		return nil
	}
	var all []string
	usedIn(parsed.Root, true, &all)
	return all
}

func usedIn(n parse.Node, top bool, all *[]string) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, below := range n.Nodes {
			usedIn(below, top, all)
		}
	case *parse.ActionNode:
		usedIn(n.Pipe, top, all)
	case *parse.PipeNode:
		if n == nil {
			return
		}
		for _, command := range n.Cmds {
			for _, argument := range command.Args {
				usedIn(argument, top, all)
			}
		}
	case *parse.ChainNode:
		usedIn(n.Node, top, all)
	case *parse.FieldNode:
		if top {
			*all = append(*all, strings.Join(n.Ident, "."))
		}
	case *parse.VariableNode:
		if n.Ident[0] == "$" && len(n.Ident) > 1 {
			*all = append(*all, strings.Join(n.Ident[1:], "."))
		}
	case *parse.IfNode:
		usedIn(n.Pipe, top, all)
		usedIn(n.List, top, all)
		usedIn(n.ElseList, top, all)
	case *parse.RangeNode:
		usedIn(n.Pipe, top, all)
		usedIn(n.List, false, all)
		usedIn(n.ElseList, top, all)
	case *parse.WithNode:
		usedIn(n.Pipe, top, all)
		usedIn(n.List, false, all)
		usedIn(n.ElseList, top, all)
	}
}

// value returns the value that a JSON patch adds. The second result is false if a variable it uses is not set.
func (v values) value(j node) (any, bool, error) {
	if variable := j.text("valueFrom", "variable"); variable != "" {
		value, ok := v.lookup(variable)
		return value, ok, nil
	}
	text := j.text("valueFrom", "template")
	if text == "" {
		return j.get("value"), true, nil
	}
	for _, name := range used(text) {
		if _, ok := v[rootOf(name)]; !ok {
			return nil, false, nil
		}
	}
	value, err := v.render(text)
	return value, true, err
}

// rootOf returns the name of the variable at the start of a path.
func rootOf(path string) string {
	if steps := fieldPath(path); len(steps) > 0 {
		return steps[0]
	}
	return path
}

// apply applies the JSON patches of a definition to an object. The second result is false if a variable is not set.
func (v values) apply(object map[string]any, patches []node) (map[string]any, bool, error) {
	var operations []map[string]any
	for _, j := range patches {
		operation := map[string]any{"op": j.text("op"), "path": j.text("path")}
		if j.text("op") != "remove" {
			value, ok, err := v.value(j)
			if err != nil || !ok {
				return nil, ok, err
			}
			operation["value"] = value
		}
		operations = append(operations, operation)
	}
	list, err := json.Marshal(operations)
	if err != nil {
		return nil, true, err
	}
	patch, err := jsonpatch.DecodePatch(list)
	if err != nil {
		return nil, true, err
	}
	before, err := json.Marshal(object)
	if err != nil {
		return nil, true, err
	}
	after, err := patch.Apply(before)
	if err != nil {
		return nil, true, fmt.Errorf("applying the JSON patches: %w", err)
	}
	var changed map[string]any
	return changed, true, json.Unmarshal(after, &changed)
}

// builtins returns the variables that Cluster API sets for the patches of a template, with example values.
func builtins(s slot) map[string]any {
	const version = "v1.36.0"
	meta := map[string]any{"labels": map[string]any{}, "annotations": map[string]any{}}
	worker := func() map[string]any {
		return map[string]any{
			"version": version, "class": s.worker, "name": "example-workers", "topologyName": "workers", "replicas": int64(1),
			"metadata": meta, "bootstrap": map[string]any{"configRef": map[string]any{"name": "example"}},
			"infrastructureRef": map[string]any{"name": "example"},
		}
	}
	all := map[string]any{"cluster": map[string]any{
		"name": "example", "namespace": "default", "uid": "0f8e0a3c-3f5e-4c6a-9a51-3c8a7c1f7a10", "metadata": meta,
		"topology": map[string]any{
			"version": version, "class": "example", "classNamespace": "default",
			"classRef": map[string]any{"name": "example", "namespace": "default"},
		},
		"network": map[string]any{
			"serviceDomain": "cluster.local", "services": []any{"10.96.0.0/12"}, "pods": []any{"192.168.0.0/16"},
			"ipFamily": "IPv4",
		},
	}}
	switch s.place {
	case "controlPlane":
		all["controlPlane"] = map[string]any{
			"version": version, "name": "example", "replicas": int64(3), "metadata": meta,
			"machineTemplate": map[string]any{"infrastructureRef": map[string]any{"name": "example"}},
		}
	case "machineDeploymentClass":
		all["machineDeployment"] = worker()
	case "machinePoolClass":
		all["machinePool"] = worker()
	}
	return all
}
