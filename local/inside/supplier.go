package inside

import (
	"context"
	"net"
	"strconv"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/local"
)

// agentConfig is where a host's agent looks for its configuration.
const agentConfig = "/etc/capstan/agent.yaml"

// hostDock is the part of the dock that a supplier needs.
type hostDock interface {
	EnsureHost(ctx context.Context, spec dock.HostSpec) (dock.Host, error)
	DeleteHost(ctx context.Context, name string) error
	ListHosts(ctx context.Context) ([]dock.Host, error)
}

// supplier supplies hosts from the dock.
type supplier struct {
	dock hostDock
	// bundles returns the versions of the bundles next to our binary. Every local host can read these bundles.
	bundles func() []string
}

// Versions returns the Kubernetes versions that a host can install.
func (s supplier) Versions() []string { return s.bundles() }

// PowerOn makes sure that the host exists and runs, and returns its address.
func (s supplier) PowerOn(ctx context.Context, host string, config []byte) (address string, err error) {
	h, err := s.dock.EnsureHost(ctx, dock.HostSpec{
		Name:  host,
		Files: []dock.File{{Path: agentConfig, Mode: 0o600, Data: config}},
	})
	return h.Address, err
}

// Destroy removes the host and everything that it stored.
func (s supplier) Destroy(ctx context.Context, host string) error {
	return s.dock.DeleteHost(ctx, host)
}

// List returns the names of the hosts that exist.
func (s supplier) List(ctx context.Context) ([]string, error) {
	hosts, err := s.dock.ListHosts(ctx)
	names := make([]string, 0, len(hosts))
	for _, h := range hosts {
		names = append(names, h.Name)
	}
	return names, err
}

// agentServer returns where agents on local hosts reach the plane's API server.
func agentServer() string {
	return "https://" + net.JoinHostPort(dock.Gateway, strconv.Itoa(local.PlanePort))
}
