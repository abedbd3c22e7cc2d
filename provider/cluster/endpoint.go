package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/failure"
	"github.com/capstan-dev/capstan/provider/patch"
	"github.com/capstan-dev/capstan/provider/step"
)

// endpoint makes sure that the control plane endpoint is known. For type Local, it comes from the balancer (IC-49),
// otherwise from the user, who sets it here or on the Cluster (IC-18).
func (r *Reconciler) endpoint(ctx context.Context, s *scope) (step.Answer, error) {
	if !local(s.capstan) {
		for _, e := range []clusterv1.APIEndpoint{s.capstan.Spec.ControlPlaneEndpoint, s.cluster.Spec.ControlPlaneEndpoint} {
			if problem := hostProblem(e.Host); problem != "" {
				s.obstacle = &step.Obstacle{Reason: infrav1.EndpointFailedReason, Message: problem}
				return step.Stop(), nil
			}
		}
		if s.capstan.Spec.ControlPlaneEndpoint.IsValid() || s.cluster.Spec.ControlPlaneEndpoint.IsValid() {
			return step.Next(), nil
		}
		s.obstacle = &step.Obstacle{Reason: infrav1.WaitingForEndpointReason, Message: fmt.Sprintf(
			"set spec.controlPlaneEndpoint on Cluster %s, or on this object, to the load balancer or virtual address of the "+
				"control plane",
			s.name.Name)}
		return step.Stop(), nil
	}
	if r.Backends.Balancer == nil {
		s.obstacle = &step.Obstacle{
			Reason:  infrav1.EndpointFailedReason,
			Message: "this manager has no local balancers: create the cluster with loadBalancer.type: External",
		}
		return step.Stop(), nil
	}
	host, port, err := r.Backends.Ensure(ctx, s.name)
	if err != nil {
		s.obstacle = endpointFailed(s, err)
		return step.Answer{}, err
	}
	has, want := s.capstan.Spec.ControlPlaneEndpoint, clusterv1.APIEndpoint{Host: host, Port: port}
	if !has.IsZero() && has != want {
		s.obstacle = &step.Obstacle{Reason: infrav1.EndpointMovedReason, Message: fmt.Sprintf(
			"the balancer listens on %s port %d, but the machines use %s port %d: recreate the cluster", host, port,
			has.Host, has.Port)}
		return step.Stop(), nil
	}
	before := s.capstan.DeepCopy()
	s.capstan.Spec.ControlPlaneEndpoint = want
	return step.Next(), patch.Object(ctx, r.Client, before, s.capstan, patch.Unlocked)
}

// hostProblem returns what is wrong with the host of an endpoint, or "". Machines and this controller connect to it, so
// it must not be a loopback, multicast or similar address. hostProblem is pure.
func hostProblem(host string) string {
	if host == "" {
		return ""
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if !a.Unmap().IsGlobalUnicast() || a.Zone() != "" {
			return fmt.Sprintf("the control plane endpoint %s is not an address that other computers can use: recreate the "+
				"cluster with the address of its load balancer", host)
		}
		return ""
	}
	if len(validation.IsDNS1123Subdomain(strings.ToLower(host))) > 0 || strings.EqualFold(host, "localhost") {
		return fmt.Sprintf("the control plane endpoint %.100q is neither an IP address nor a host name: recreate the "+
			"cluster with the address of its load balancer", host)
	}
	return ""
}

// backends updates the balancer's backends to match the control plane machines (IM-51, IM-58).
func (r *Reconciler) backends(ctx context.Context, s *scope) (step.Answer, error) {
	if !local(s.capstan) {
		return step.Next(), nil
	}
	if err := r.Backends.Sync(ctx, s.name, s.cluster.Spec.ClusterNetwork.APIServerPort); err != nil {
		s.obstacle = endpointFailed(s, err)
		return step.Answer{}, err
	}
	return step.Next(), nil
}

// endpointFailed returns the obstacle for a balancer that can't be created, changed or removed.
func endpointFailed(s *scope, err error) *step.Obstacle {
	const reason = infrav1.EndpointFailedReason
	has := conditions.Get(s.capstan, infrav1.EndpointReadyCondition)
	return &step.Obstacle{Reason: reason, Message: failure.Same(has, reason, failure.Text(err))}
}

func local(c *infrav1.CapstanCluster) bool {
	return c.Spec.LoadBalancer.Type == infrav1.LoadBalancerLocal
}
