// Package extension contains the manifests that install capstan-extension in a management cluster.
package extension

import _ "embed"

// Roles contains YAML documents: the ServiceAccount, the ClusterRole with all rights that the extension needs, and the
// binding of the two. The embedded management plane gives the same ClusterRole to its own user.
//
//go:embed rbac.yaml
var Roles string
