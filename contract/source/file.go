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
	// Path is where it stands, as the user can open it.
	Path string
	// Role is what it is for.
	Role Role
	// Objects are what it holds, with defaults in the place of variables.
	Objects []*Object
	// Variables are the uses of variables, in order.
	Variables []Variable
	// Problem says why it could not be read to its end. Nil: it could.
	Problem *Problem

	decode      sync.Once
	definitions []*Definition
}

// Problem is a file that cannot be read as YAML.
type Problem struct {
	At      Position
	Message string
}

// Base returns the last element of the path.
func (f *File) Base() string { return path.Base(filepath.ToSlash(f.Path)) }

// Type returns the type of provider that the file's name says, empty if it says none.
func (f *File) Type() Type { return typeOfFile(f.Path) }

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// readFile reads the text of a file. It never fails: a text that is not YAML becomes a problem of the file.
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

// roleOf returns what a file is for: by its name, else by what it holds.
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

// typeOfFile returns the type of provider that the name of a components file says.
func typeOfFile(name string) Type {
	base := path.Base(filepath.ToSlash(name))
	for _, t := range Types() {
		if strings.HasPrefix(base, string(t)+"-components") {
			return t
		}
	}
	return ""
}
