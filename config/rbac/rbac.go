// Package rbac embeds the roles for people, which a management cluster and the embedded plane both have.
package rbac

import _ "embed"

// People contains YAML documents: ClusterRoles for tenants, for people who run the inventory, and for people who move
// clusters.
//
//go:embed people_roles.yaml
var People string
