package v1beta2

import (
	"crypto/sha256"
	"encoding/hex"
)

// EndpointLabel marks the CapstanHost whose address is the endpoint of a cluster. Its value is [EndpointMark]. The
// control plane is placed on this host, so only its zone is offered to control plane machines.
const EndpointLabel = "infrastructure.capstan.dev/endpoint-of"

// EndpointMark returns the value of [EndpointLabel] for a Cluster. It is a digest, because names of clusters can be too
// long for a label.
func EndpointMark(namespace, cluster string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + cluster))
	return hex.EncodeToString(sum[:16])
}
