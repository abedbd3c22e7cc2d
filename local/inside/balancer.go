package inside

import (
	"context"
	"errors"
	"fmt"
	"net"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/local"
)

// balancerDock is the part of the dock that a balancer needs.
type balancerDock interface {
	EnsureBalancer(ctx context.Context, name string) (dock.Balancer, error)
	SetBackends(ctx context.Context, name string, backends []string) error
	DeleteBalancer(ctx context.Context, name string) error
	DeleteRelay(ctx context.Context, name string) error
}

// balancer provides clusters with balancers in the dock.
type balancer struct{ dock balancerDock }

// Ensure makes sure that the cluster's balancer works, and returns its address.
func (b balancer) Ensure(ctx context.Context, cluster types.NamespacedName) (host string, port int32, err error) {
	made, err := b.dock.EnsureBalancer(ctx, local.RelayName(cluster.Namespace, cluster.Name))
	if err == nil && made.Error != "" {
		err = errors.New(made.Error)
	}
	return made.Address, int32(made.Port), err
}

// SetBackends replaces the cluster's backends. Agents report these addresses, so SetBackends refuses any address that
// does not belong to a host: otherwise, an agent could make the balancer lead into the plane.
func (b balancer) SetBackends(ctx context.Context, cluster types.NamespacedName, backends []string) error {
	for _, backend := range backends {
		if host, _, err := net.SplitHostPort(backend); err != nil || !dock.IsHost(host) {
			return fmt.Errorf("the balancer of cluster %s: %q is not the address of a local host", cluster, backend)
		}
	}
	return b.dock.SetBackends(ctx, local.RelayName(cluster.Namespace, cluster.Name), backends)
}

// Delete removes the cluster's balancer, and the relay through which the user reached the cluster.
func (b balancer) Delete(ctx context.Context, cluster types.NamespacedName) error {
	name := local.RelayName(cluster.Namespace, cluster.Name)
	return errors.Join(b.dock.DeleteBalancer(ctx, name), b.dock.DeleteRelay(ctx, name))
}
