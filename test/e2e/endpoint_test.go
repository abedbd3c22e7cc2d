package e2e

import (
	"net"
	"testing"

	"github.com/capstan-dev/capstan/dock"
)

// endpointAddress is the address of a dock's bridge, which all its hosts can reach.
const endpointAddress = dock.Gateway

// endpoint is a user's own load balancer for one cluster, in the network of its hosts.
type endpoint struct {
	wire
	port string
}

// newEndpoint starts an endpoint on a port of [endpointAddress] in the shared dock, and stops it at the end of the
// test.
func newEndpoint(t *testing.T, port string) endpoint {
	t.Helper()
	return endpoint{newWire(t, homeDir, "tcp "+net.JoinHostPort(endpointAddress, port)), port}
}

// balance makes the endpoint forward to the same port of these hosts.
func (e endpoint) balance(t *testing.T, hosts []string) {
	t.Helper()
	var backends []string
	for _, h := range hosts {
		backends = append(backends, "tcp "+net.JoinHostPort(h, e.port))
	}
	e.forward(t, backends...)
}
