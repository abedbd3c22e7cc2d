// Package webhook embeds the generated configurations of Capstan's admission webhooks.
package webhook

import _ "embed"

// Manifests are YAML documents, made by controller-gen from the markers in provider/webhook. They lead to a Service;
// what serves the webhooks elsewhere replaces that.
//
//go:embed manifests.yaml
var Manifests []byte
