package e2e

import (
	"net"
	"testing"

	"github.com/capstan-dev/capstan/dock"
)

// endpointAddress is that of a dock's bridge: all its hosts reach it.
const endpointAddress = dock.Gateway

// endpoint is a load balancer of a user's own, for one cluster, in the network of its hosts.
type endpoint struct {
	wire
	port string
}

// newEndpoint starts one on a port of [endpointAddress] in the shared dock, and ends it with the test.
func newEndpoint(t *testing.T, port string) endpoint {
	t.Helper()
	return endpoint{newWire(t, homeDir, "tcp "+net.JoinHostPort(endpointAddress, port)), port}
}

// balance makes it forward to its port of these hosts.
func (e endpoint) balance(t *testing.T, hosts []string) {
	t.Helper()
	var backends []string
	for _, h := range hosts {
		backends = append(backends, "tcp "+net.JoinHostPort(h, e.port))
	}
	e.forward(t, backends...)
}
