package local

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// PlanePort is the port of the plane's API server, on all addresses of the dock. It can't be 6443, which the balancers
// use.
const PlanePort = 7443

// planeUnit is the name of the plane's unit in the dock, and of the relay to its API server.
const planeUnit = "plane"

// RelayName returns the name of a cluster's balancer and relay in the dock. The dock's names are DNS labels, which are
// short and contain no dot. Labels made of a namespace and a name could collide, so a hash makes each unique.
func RelayName(namespace, cluster string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + cluster))
	return fmt.Sprintf("c-%.40s-%x", strings.ReplaceAll(cluster, ".", "-"), sum[:5])
}
