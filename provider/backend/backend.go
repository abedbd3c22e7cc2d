// Package backend keeps the backends of each cluster's control plane balancer up to date. The backends are the control
// plane machines that have an address and are not being deleted (contract rules IM-51 and IM-58).
package backend

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/claim"
)

// DefaultPort is the port of the API servers if the Cluster doesn't set one.
const DefaultPort = 6443

// callTimeout bounds one call to the balancer.
const callTimeout = 10 * time.Second

// Balancer supplies control plane endpoints: one TCP balancer for each cluster. All calls must be idempotent, and must
// return when their context ends.
type Balancer interface {
	// Ensure makes sure that the cluster's balancer exists and listens, and returns its address, which never changes.
	Ensure(ctx context.Context, cluster types.NamespacedName) (host string, port int32, err error)

	// SetBackends replaces the cluster's backends, each "ip:port". It closes connections to removed backends.
	SetBackends(ctx context.Context, cluster types.NamespacedName, addresses []string) error

	// Delete removes the cluster's balancer.
	Delete(ctx context.Context, cluster types.NamespacedName) error
}

// Keeper sets backends. It computes and sets them under one lock for each cluster. The reconcilers of clusters and
// machines share one Keeper. Otherwise an earlier reconcile of a cluster could add back a machine that has just been
// removed.
type Keeper struct {
	// Reader reads CapstanHosts and CapstanMachines. It must be the cache that the reconcilers use.
	Reader client.Reader
	// Balancer supplies the endpoints. If it is nil, don't call any method of the Keeper.
	Balancer Balancer

	mu       sync.Mutex
	clusters map[types.NamespacedName]*backends
}

type backends struct {
	mu    sync.Mutex
	known bool // whether the field set holds the balancer's backends
	set   []string
}

// Sync updates the backends of the cluster. port is the port of the API servers; 0 means DefaultPort.
func (k *Keeper) Sync(ctx context.Context, cluster types.NamespacedName, port int32) error {
	b := k.of(cluster)
	b.mu.Lock()
	defer b.mu.Unlock()

	hosts := &infrav1.CapstanHostList{} // read-only, so not copied
	err := k.Reader.List(ctx, hosts, client.InNamespace(cluster.Namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("listing hosts: %w", err)
	}
	leaving := map[string]bool{}
	for _, host := range controlPlane(hosts.Items, cluster.Name) {
		machine := &infrav1.CapstanMachine{}
		err := k.Reader.Get(ctx, types.NamespacedName{Namespace: cluster.Namespace, Name: host.Spec.Claim.Machine}, machine)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading CapstanMachine %s: %w", host.Spec.Claim.Machine, err)
		}
		leaving[host.Spec.Claim.Machine] = apierrors.IsNotFound(err) || !machine.DeletionTimestamp.IsZero()
	}
	want := planBackends(hosts.Items, cluster.Name, leaving, port)
	if b.known && slices.Equal(b.set, want) {
		return nil
	}
	b.known = false
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := k.Balancer.SetBackends(ctx, cluster, want); err != nil {
		return fmt.Errorf("setting the backends of the balancer of cluster %s: %w", cluster, err)
	}
	b.known, b.set = true, want
	return nil
}

// Ensure makes sure that the cluster's balancer listens, and returns its address.
func (k *Keeper) Ensure(ctx context.Context, cluster types.NamespacedName) (string, int32, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	host, port, err := k.Balancer.Ensure(ctx, cluster)
	if err != nil {
		return "", 0, fmt.Errorf("creating the balancer of cluster %s: %w", cluster, err)
	}
	if host == "" || port < 1 || port > 65535 {
		return "", 0, fmt.Errorf("the balancer of cluster %s reports %q port %d, which is not a valid endpoint", cluster,
			host, port)
	}
	return host, port, nil
}

// Delete removes the cluster's balancer.
func (k *Keeper) Delete(ctx context.Context, cluster types.NamespacedName) error {
	b := k.of(cluster)
	b.mu.Lock()
	defer b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := k.Balancer.Delete(ctx, cluster); err != nil {
		return fmt.Errorf("deleting the balancer of cluster %s: %w", cluster, err)
	}
	b.known, b.set = false, nil
	k.mu.Lock()
	delete(k.clusters, cluster)
	k.mu.Unlock()
	return nil
}

func (k *Keeper) of(cluster types.NamespacedName) *backends {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.clusters == nil {
		k.clusters = map[types.NamespacedName]*backends{}
	}
	if k.clusters[cluster] == nil {
		k.clusters[cluster] = &backends{}
	}
	return k.clusters[cluster]
}

// planBackends returns the sorted addresses of a cluster's control plane hosts. It omits hosts whose machines are
// leaving.
func planBackends(hosts []infrav1.CapstanHost, cluster string, leaving map[string]bool, port int32) []string {
	if port == 0 {
		port = DefaultPort
	}
	addresses := []string{}
	for _, host := range controlPlane(hosts, cluster) {
		if a := claim.Address(host); a != "" && !leaving[host.Spec.Claim.Machine] {
			addresses = append(addresses, net.JoinHostPort(a, strconv.Itoa(int(port))))
		}
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}

func controlPlane(hosts []infrav1.CapstanHost, cluster string) []*infrav1.CapstanHost {
	var found []*infrav1.CapstanHost
	for i := range hosts {
		if c := hosts[i].Spec.Claim; c != nil && c.ControlPlane && c.Cluster == cluster && !c.Released {
			found = append(found, &hosts[i])
		}
	}
	return found
}
