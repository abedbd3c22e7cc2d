// Package webhook embeds the generated configurations of Capstan's admission webhooks.
package webhook

import _ "embed"

// Manifests contains YAML documents, which controller-gen generates from the markers in provider/webhook. They make the
// API server call a Service; the embedded management plane replaces this Service with its own URL.
//
//go:embed manifests.yaml
var Manifests []byte
