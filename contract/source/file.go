package source

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// File is one file of a release.
type File struct {
	// Path is where the user can open the file.
	Path string
	// Role is the file's role in the release.
	Role Role
	// Objects are the objects in the file, with variables replaced by their defaults.
	Objects []*Object
	// Variables are the uses of variables, in order.
	Variables []Variable
	// Problem says why the file could not be read completely. It is nil if it could.
	Problem *Problem

	decode      sync.Once
	definitions []*Definition
}

// Problem says where and why a file cannot be read as YAML.
type Problem struct {
	At      Position
	Message string
}

// Base returns the last element of the path.
func (f *File) Base() string { return path.Base(filepath.ToSlash(f.Path)) }

// Type returns the provider type that the file's name indicates, or "".
func (f *File) Type() Type { return typeOfFile(f.Path) }

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// readFile parses the text of a file. It never fails: text that is not YAML becomes the Problem of the file.
func (r Reader) readFile(name string, text []byte) *File {
	f := &File{Path: name}
	f.Variables = variables(name, string(text))
	filled := r.substitute(string(text), f.Variables)
	objects, err := parse(f, filled)
	if err != nil {
		if shielded, failed := parse(f, shield(filled)); failed == nil {
			objects, err = shielded, nil
		}
	}
	f.Objects = objects
	if err != nil {
		f.Problem = &Problem{At: Position{File: name}, Message: strings.TrimPrefix(err.Error(), "yaml: ")}
		if match := yamlLine.FindStringSubmatch(err.Error()); match != nil {
			f.Problem.At.Line, _ = strconv.Atoi(match[1])
			f.Problem.Message = strings.TrimPrefix(err.Error(), match[0])
		}
	}
	f.Role = roleOf(f)
	return f
}

// roleOf returns the role of a file, by its name or else by its content.
func roleOf(f *File) Role {
	base := f.Base()
	switch {
	case base == "metadata.yaml":
		return Metadata
	case typeOfFile(base) != "":
		return Components
	case strings.HasPrefix(base, "cluster-template"):
		return Template
	case strings.HasPrefix(base, "clusterclass-"):
		return Class
	case slices.ContainsFunc(f.Objects, isComponent):
		return Components
	}
	return Other
}

func isComponent(o *Object) bool {
	switch o.Kind() {
	case "CustomResourceDefinition":
		return o.Group() == "apiextensions.k8s.io"
	case "Deployment":
		return o.Group() == "apps"
	}
	return false
}

// typeOfFile returns the provider type that the name of a components file indicates, or "".
func typeOfFile(name string) Type {
	base := path.Base(filepath.ToSlash(name))
	for _, t := range Types() {
		if strings.HasPrefix(base, string(t)+"-components") {
			return t
		}
	}
	return ""
}
