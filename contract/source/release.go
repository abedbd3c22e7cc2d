package source

import (
	"fmt"
	"slices"
	"strings"
)

// Form is the form in which a release was handed over.
type Form string

// The forms.
const (
	// Repository is a directory of a release, as clusterctl reads it.
	Repository Form = "repository"
	// Manifest is one file.
	Manifest Form = "manifest"
	// Base is a rendered kustomize base.
	Base Form = "base"
	// Module is the source of a Go module: its rendered config directory, its metadata and templates.
	Module Form = "module"
)

// Role is what a file is for.
type Role string

// The roles.
const (
	Metadata   Role = "metadata"
	Components Role = "components"
	Template   Role = "template"
	Class      Role = "class"
	// Given files are not of the release: the user gave them beside it.
	Given Role = "given"
	Other Role = "other"
)

// Type is the type of a provider, as in the names of components files.
type Type string

// The types of providers that contracts exist for. Core is Cluster API itself.
const (
	Core           Type = "core"
	Infrastructure Type = "infrastructure"
	Bootstrap      Type = "bootstrap"
	ControlPlane   Type = "control-plane"
	IPAM           Type = "ipam"
	Extension      Type = "runtime-extension"
	Addon          Type = "addon"
)

// Types returns all types of providers.
func Types() []Type {
	return []Type{Core, Infrastructure, Bootstrap, ControlPlane, IPAM, Extension, Addon}
}

// Release is what is judged at once: the files that belong together.
type Release struct {
	// Path is where the release was found, as the user named it.
	Path string
	// Form is how it was handed over.
	Form Form
	// Label is the provider label that the directory is named by, for example infrastructure-foo. Empty: not known.
	Label string
	// Version is the version that the directory is named by. Empty: not known.
	Version string
	// Files are the files, by path.
	Files []*File
	// Problem says why the components of a module cannot be rendered; its other files are read. Nil: they are.
	Problem error
}

// Of returns the files of a role.
func (r *Release) Of(role Role) []*File {
	var all []*File
	for _, f := range r.Files {
		if f.Role == role {
			all = append(all, f)
		}
	}
	return all
}

// Type returns the type of the provider: from its label, the name of its components or the labels of its objects.
// Empty: not known.
func (r *Release) Type() Type {
	if t := typeOfLabel(r.Label); t != "" {
		return t
	}
	files := r.Of(Components)
	for _, f := range files {
		if t := typeOfFile(f.Path); t != "" {
			return t
		}
	}
	for _, f := range files {
		for _, o := range f.Objects {
			if label, ok := o.Get("metadata", "labels", "cluster.x-k8s.io/provider").(string); ok {
				return typeOfLabel(label)
			}
		}
	}
	return ""
}

func typeOfLabel(label string) Type {
	if label == "cluster-api" {
		return Core
	}
	for _, t := range Types() {
		if t != Core && strings.HasPrefix(label, string(t)+"-") {
			return t
		}
	}
	return ""
}

// Position is a place in a file. Lines and columns count from 1; 0 is not known.
type Position struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// String returns file:line:column, as compilers write it.
func (p Position) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Compare orders positions by file, line and column.
func (p Position) Compare(q Position) int {
	if c := strings.Compare(p.File, q.File); c != 0 {
		return c
	}
	return slices.Compare([]int{p.Line, p.Column}, []int{q.Line, q.Column})
}
