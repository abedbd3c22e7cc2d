package main

import (
	"bytes"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// document is one YAML document. In it, variables of clusterctl such as ${CLUSTER_NAME} are strings.
type document map[string]any

// parse reads a file of several documents and skips empty ones.
func parse(data []byte) (documents []document, err error) {
	for _, part := range strings.Split("\n"+string(data), "\n---") {
		var d document
		if err := yaml.Unmarshal([]byte(part), &d); err != nil {
			return nil, err
		}
		if len(d) > 0 {
			documents = append(documents, d)
		}
	}
	return documents, nil
}

// format writes documents into one file. It writes variables without quotes, so that a number that replaces a variable
// stays a number.
func format(documents []document) ([]byte, error) {
	var out bytes.Buffer
	for _, d := range documents {
		data, err := yaml.Marshal(d)
		if err != nil {
			return nil, err
		}
		out.WriteString("---\n")
		out.Write(data)
	}
	return out.Bytes(), nil
}

func (d document) kind() string { return d.text("kind") }

func (d document) name() string { return d.text("metadata", "name") }

// text returns the string at a path, or "" if there is none.
func (d document) text(path ...string) string {
	text, _ := d.get(path...).(string)
	return text
}

// get returns the value at a path, or nil if there is none.
func (d document) get(path ...string) any {
	var at any = map[string]any(d)
	for _, step := range path {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[step]
	}
	return at
}

// set sets the value at a path and creates missing parents.
func (d document) set(value any, path ...string) {
	at := map[string]any(d)
	for _, step := range path[:len(path)-1] {
		next, ok := at[step].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[step] = next
		}
		at = next
	}
	at[path[len(path)-1]] = value
}

// remove removes the value at a path.
func (d document) remove(path ...string) {
	if parent, ok := d.get(path[:len(path)-1]...).(map[string]any); ok {
		delete(parent, path[len(path)-1])
	}
}

// clone returns a document that shares nothing with d.
func (d document) clone() document {
	return copyOf(map[string]any(d)).(map[string]any)
}

func copyOf(value any) any {
	switch v := value.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, inner := range v {
			m[key] = copyOf(inner)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, inner := range v {
			list[i] = copyOf(inner)
		}
		return list
	}
	return value
}

// find returns the only document of a kind.
func find(documents []document, kind string) (document, error) {
	var found document
	for _, d := range documents {
		if d.kind() != kind {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("there are two documents of kind %s", kind)
		}
		found = d
	}
	if found == nil {
		return nil, fmt.Errorf("there is no document of kind %s", kind)
	}
	return found, nil
}

// merge applies patches to the documents of the same kind and name: maps are merged, everything else is replaced. A
// patch without such a document becomes a new document.
func merge(documents, patches []document) []document {
	for _, patch := range patches {
		merged := false
		for _, d := range documents {
			if d.kind() == patch.kind() && d.name() == patch.name() {
				mergeMaps(d, patch)
				merged = true
			}
		}
		if !merged {
			documents = append(documents, patch.clone())
		}
	}
	return documents
}

func mergeMaps(into, from map[string]any) {
	for key, value := range from {
		inner, isMap := value.(map[string]any)
		present, wasMap := into[key].(map[string]any)
		if isMap && wasMap {
			mergeMaps(present, inner)
			continue
		}
		into[key] = copyOf(value)
	}
}
