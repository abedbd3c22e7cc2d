// Package templates embeds the ClusterClasses and cluster templates of Capstan.
package templates

import "embed"

// Local is the ClusterClass for local hosts with its templates: several YAML documents without namespaces, so whoever
// applies them chooses the namespace.
//
//go:embed clusterclass-capstan-local.yaml
var Local []byte

// Owned is the ClusterClass for owned hosts with its templates, in the same form as Local.
//
//go:embed clusterclass-capstan-owned.yaml
var Owned []byte

// OwnedClass is the name of the ClusterClass in Owned.
const OwnedClass = "capstan-owned"

// LocalClass is the name of the ClusterClass in Local.
const LocalClass = "capstan-local"

// Files holds all templates by file name.
//
//go:embed *.yaml
var Files embed.FS
