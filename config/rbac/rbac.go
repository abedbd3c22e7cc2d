// Package rbac embeds the roles for people that a management cluster and the embedded plane both have.
package rbac

import _ "embed"

// Mover is a YAML document: the ClusterRole of those who move or restore clusters.
//
//go:embed mover_role.yaml
var Mover string
