package source

import (
	"fmt"
	"slices"
	"strings"
)

// Form is the form in which a release was passed in.
type Form string

// The forms.
const (
	// Repository is a release directory as clusterctl reads it.
	Repository Form = "repository"
	// Manifest is a single file.
	Manifest Form = "manifest"
	// Base is a rendered kustomize base.
	Base Form = "base"
	// Module is the source tree of a Go module: its rendered config directory, metadata and templates.
	Module Form = "module"
)

// Role is the purpose of a file.
type Role string

// The roles. Metadata is metadata.yaml, Components are component files, Template is a cluster template, and Class is a
// file with ClusterClasses. Other files have no role in a release.
const (
	Metadata   Role = "metadata"
	Components Role = "components"
	Template   Role = "template"
	Class      Role = "class"
	// Given files are not part of the release: the user passed them in.
	Given Role = "given"
	Other Role = "other"
)

// Type is the type of a provider, as in the name of a components file.
type Type string

// The provider types that contracts exist for. Core is Cluster API itself.
const (
	Core           Type = "core"
	Infrastructure Type = "infrastructure"
	Bootstrap      Type = "bootstrap"
	ControlPlane   Type = "control-plane"
	IPAM           Type = "ipam"
	Extension      Type = "runtime-extension"
	Addon          Type = "addon"
)

// Types returns all provider types.
func Types() []Type {
	return []Type{Core, Infrastructure, Bootstrap, ControlPlane, IPAM, Extension, Addon}
}

// Release is a set of files that belong together and are checked together.
type Release struct {
	// Path is the path of the release, as the user named it.
	Path string
	// Form is the form in which the release was passed in.
	Form Form
	// Label is the provider label in the directory's path, for example infrastructure-foo. It is empty if unknown.
	Label string
	// Version is the version in the directory's name. It is empty if unknown.
	Version string
	// Files are the files, sorted by path.
	Files []*File
	// Problem says why the components of a module could not be rendered; its other files are still read. It is nil if
	// they could.
	Problem error
}

// Of returns the files with a role.
func (r *Release) Of(role Role) []*File {
	var all []*File
	for _, f := range r.Files {
		if f.Role == role {
			all = append(all, f)
		}
	}
	return all
}

// Type returns the type of the provider, derived from its label, the name of its components or the labels of its
// objects. It is empty if unknown.
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

// Position is a place in a file. Lines and columns count from 1; 0 means unknown.
type Position struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// String returns file:line:column, in the form that compilers use.
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
