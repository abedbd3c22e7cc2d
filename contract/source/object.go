package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Object is one object in a file.
type Object struct {
	// File is the file that contains the object. For a rendered object it is the rendered file.
	File *File
	// Value is the object in the types of JSON. The caller must not change it.
	Value map[string]any

	node   *yaml.Node
	origin *Position // of a rendered object; its fields have no lines
}

// Get returns the value at a path, or nil. List indexes are decimal numbers.
func (o *Object) Get(path ...string) any {
	var value any = o.Value
	for _, step := range path {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// Text returns the string at a path, or "".
func (o *Object) Text(path ...string) string {
	s, _ := o.Get(path...).(string)
	return s
}

// List returns the list at a path, or nil.
func (o *Object) List(path ...string) []any {
	list, _ := o.Get(path...).([]any)
	return list
}

// Kind returns the kind.
func (o *Object) Kind() string { return o.Text("kind") }

// Name returns the name.
func (o *Object) Name() string { return o.Text("metadata", "name") }

// Namespace returns the namespace as written in the file.
func (o *Object) Namespace() string { return o.Text("metadata", "namespace") }

// Group returns the API group; the core group is "".
func (o *Object) Group() string {
	group, _, ok := strings.Cut(o.Text("apiVersion"), "/")
	if !ok {
		return ""
	}
	return group
}

// Version returns the version of the API.
func (o *Object) Version() string {
	version := o.Text("apiVersion")
	return version[strings.IndexByte(version, '/')+1:]
}

// String returns the kind and name.
func (o *Object) String() string { return strings.TrimSpace(o.Kind() + " " + o.Name()) }

// Label returns the value of a label.
func (o *Object) Label(key string) string { return o.Text("metadata", "labels", key) }

// At returns the position of a field or, if it is missing, of its nearest ancestor.
func (o *Object) At(path ...string) Position {
	if o.origin != nil {
		return *o.origin
	}
	node := o.node
	line, column := node.Line, node.Column
	for _, step := range path {
		key, value := child(node, step)
		if value == nil {
			break
		}
		line, column, node = key.Line, key.Column, value
	}
	return Position{File: o.File.Path, Line: line, Column: column}
}

// child returns two nodes of a field: key is the one to show, value the one to descend into.
func child(node *yaml.Node, step string) (key, value *yaml.Node) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i], node.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i]
		}
	}
	return nil, nil
}

// Decode decodes the object into a typed value. It ignores fields that the type does not have.
func (o *Object) Decode(into any) error {
	data, err := json.Marshal(o.Value)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// parse reads the objects in a file. It skips empty documents.
func parse(f *File, text string) ([]*Object, error) {
	decoder := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	var all []*Object
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		objects, err := objectsOf(f, &document)
		if err != nil {
			return all, err
		}
		all = append(all, objects...)
	}
}

func objectsOf(f *File, document *yaml.Node) ([]*Object, error) {
	if len(document.Content) == 0 || document.Content[0].Tag == "!!null" {
		return nil, nil
	}
	node := document.Content[0]
	if node.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("yaml: line %d: a document is not an object", node.Line)
	}
	var raw any
	if err := node.Decode(&raw); err != nil {
		return nil, err
	}
	value, _ := normal(raw).(map[string]any)
	if value["kind"] == "List" && value["apiVersion"] == "v1" {
		return listed(f, node, value)
	}
	return []*Object{{File: f, Value: value, node: node}}, nil
}

// listed returns the items of a kubectl List.
func listed(f *File, list *yaml.Node, value map[string]any) ([]*Object, error) {
	_, items := child(list, "items")
	values, _ := value["items"].([]any)
	if items == nil || len(items.Content) != len(values) {
		return nil, nil
	}
	var all []*Object
	for i, item := range values {
		object, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("yaml: line %d: an item of a list is not an object", items.Content[i].Line)
		}
		all = append(all, &Object{File: f, Value: object, node: items.Content[i]})
	}
	return all, nil
}

// normal converts what YAML decoded to the types of JSON.
func normal(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, element := range v {
			v[key] = normal(element)
		}
		return v
	case map[any]any:
		object := make(map[string]any, len(v))
		for key, element := range v {
			object[fmt.Sprint(key)] = normal(element)
		}
		return object
	case []any:
		for i, element := range v {
			v[i] = normal(element)
		}
		return v
	case int:
		return int64(v)
	case uint64:
		return float64(v)
	case string:
		return unshield(v)
	case nil, bool, int64, float64:
		return v
	}
	return fmt.Sprint(value)
}
