// Package crd embeds the generated CustomResourceDefinitions of Capstan.
package crd

import "embed"

// Files holds bases/*.yaml, one CustomResourceDefinition in each, made by controller-gen from package api/v1beta2.
//
//go:embed bases/*.yaml
var Files embed.FS
