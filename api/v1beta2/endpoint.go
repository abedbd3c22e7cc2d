package v1beta2

import (
	"crypto/sha256"
	"encoding/hex"
)

// EndpointLabel marks the CapstanHost whose address is the endpoint of a cluster, with the value of [EndpointMark]: the
// control plane goes there, and its zone is the only one that is offered to control plane machines.
const EndpointLabel = "infrastructure.capstan.dev/endpoint-of"

// EndpointMark returns the value of [EndpointLabel] for a Cluster. It is a digest, because names of clusters can be too
// long for a label.
func EndpointMark(namespace, cluster string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + cluster))
	return hex.EncodeToString(sum[:16])
}
