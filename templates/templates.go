// Package templates embeds the ClusterClasses and cluster templates of Capstan.
package templates

import "embed"

// Local is the ClusterClass for local hosts with its templates, in one multi-document YAML without namespaces: whoever
// applies it chooses the namespace.
//
//go:embed clusterclass-capstan-local.yaml
var Local []byte

// Owned is the ClusterClass for owned hosts, as Local is for local ones.
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
