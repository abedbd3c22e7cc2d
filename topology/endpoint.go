package topology

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/hint"
)

// endpointMark returns the value of [infrav1.EndpointLabel] that marks the control plane host of the request's cluster.
func (r Request) endpointMark() string { return infrav1.EndpointMark(r.Namespace, r.Name) }

// takeEndpoint marks the control plane host, and returns the request with the host's address as its endpoint.
func (r Request) takeEndpoint(ctx context.Context, c client.Client) (Request, error) {
	host := &infrav1.CapstanHost{}
	err := c.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.ControlPlaneHost}, host)
	if apierrors.IsNotFound(err) {
		return r, hint.Errorf("see: capstan host list", "there is no host %q in namespace %s", r.ControlPlaneHost,
			r.Namespace)
	}
	if err != nil {
		return r, fmt.Errorf("looking for host %s: %w", r.ControlPlaneHost, err)
	}
	if host.Spec.Claim != nil {
		return r, hint.Errorf("choose one that is Available: capstan host list", "host %s has a machine", host.Name)
	}
	if agent := host.Status.Agent; agent != nil {
		r.endpoint = agent.Address
	}
	if r.endpoint == "" {
		return r, hint.Errorf("wait until it is Available: capstan host list", "host %s has not said its address yet",
			host.Name)
	}
	if err := r.leaveEndpoint(ctx, c); err != nil {
		return r, err
	}
	before := host.DeepCopy()
	metav1.SetMetaDataLabel(&host.ObjectMeta, infrav1.EndpointLabel, r.endpointMark())
	same := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, host, same); err != nil {
		return r, fmt.Errorf("marking host %s for the control plane: %w", host.Name, err)
	}
	return r, nil
}

// leaveEndpoint removes the mark from hosts on which an earlier cluster of this name had its control plane. Otherwise
// the control plane of this cluster would go there, too.
func (r Request) leaveEndpoint(ctx context.Context, c client.Client) error {
	hosts := &infrav1.CapstanHostList{}
	marked := client.MatchingLabels{infrav1.EndpointLabel: r.endpointMark()}
	if err := c.List(ctx, hosts, client.InNamespace(r.Namespace), marked); err != nil {
		return fmt.Errorf("looking for hosts of an earlier cluster %s: %w", r.Name, err)
	}
	for i := range hosts.Items {
		host := &hosts.Items[i]
		before := host.DeepCopy()
		delete(host.Labels, infrav1.EndpointLabel)
		same := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := client.IgnoreNotFound(c.Patch(ctx, host, same)); err != nil {
			return fmt.Errorf("removing the mark of an earlier cluster %s from host %s: %w", r.Name, host.Name, err)
		}
	}
	return nil
}

// checkEndpoint refuses a change that gives the control plane another host, or more hosts, if the endpoint of the
// cluster is the address of one host. A machine on another host could not be reached at that endpoint, and the change
// would never finish.
func checkEndpoint(ctx context.Context, c client.Client, cluster *clusterv1.Cluster, change string) error {
	hosts := &infrav1.CapstanHostList{}
	marked := client.MatchingLabels{infrav1.EndpointLabel: infrav1.EndpointMark(cluster.Namespace, cluster.Name)}
	if err := c.List(ctx, hosts, client.InNamespace(cluster.Namespace), marked); err != nil {
		return fmt.Errorf("looking for the host with the endpoint of cluster %s: %w", cluster.Name, err)
	}
	for i := range hosts.Items {
		host := &hosts.Items[i]
		agent := host.Status.Agent
		if agent == nil || agent.Address != cluster.Spec.ControlPlaneEndpoint.Host {
			continue // the cluster now has an endpoint of its own
		}
		return hint.Errorf("make a cluster whose endpoint is a load balancer or a virtual address: docs/owned-hosts.md",
			"%s needs another host for the control plane, but the endpoint of cluster %s is the address of host %s", change,
			cluster.Name, host.Name)
	}
	return nil
}
