package cluster

import (
	"context"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/patch"
	"github.com/capstan-dev/capstan/provider/step"
)

// heldByUs ends the pass if the object is being deleted and does not have our finalizer.
func (r *Reconciler) heldByUs(_ context.Context, s *scope) (step.Answer, error) {
	if !controllerutil.ContainsFinalizer(s.capstan, infrav1.ClusterFinalizer) {
		s.silent = true
		return step.Stop(), nil
	}
	return step.Next(), nil
}

// machinesGone waits until no machine of the cluster is left. Cluster API deletes machines first, and a machine needs
// the endpoint so that it can leave the cluster cleanly. If the object has no owner, there is nothing to wait for
// (IC-53).
func (r *Reconciler) machinesGone(ctx context.Context, s *scope) (step.Answer, error) {
	if s.name.Name == "" {
		return step.Next(), nil
	}
	machines := &infrav1.CapstanMachineList{}
	err := r.Client.List(ctx, machines,
		client.InNamespace(s.name.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: s.name.Name})
	if err != nil {
		return step.Answer{}, fmt.Errorf("listing machines: %w", err)
	}
	if n := len(machines.Items); n > 0 {
		if leftToUs(s.cluster) {
			if err := r.deleteLeft(ctx, s, machines.Items); err != nil {
				return step.Answer{}, err
			}
		}
		s.waiting = fmt.Sprintf("waiting until %d machines of the cluster are deleted, for example %s",
			n, machines.Items[0].Name)
		return step.Stop(), nil
	}
	return step.Next(), nil
}

// leftToUs reports whether Cluster API has deleted everything of a Cluster except its infrastructure. Nobody else then
// deletes the machines that still exist: Cluster API relies on the control plane object to delete control plane
// machines, but that object is gone, and did not own these machines.
func leftToUs(cluster *clusterv1.Cluster) bool {
	return cluster != nil && !cluster.DeletionTimestamp.IsZero() && conditions.GetReason(
		cluster, clusterv1.ClusterDeletingCondition) == clusterv1.ClusterDeletingWaitingForInfrastructureDeletionReason
}

// deleteLeft deletes the Machines of the given CapstanMachines, and those CapstanMachines that have no Machine.
func (r *Reconciler) deleteLeft(ctx context.Context, s *scope, left []infrav1.CapstanMachine) error {
	for i := range left {
		capstan := &left[i]
		if !capstan.DeletionTimestamp.IsZero() {
			continue
		}
		var last client.Object = capstan
		machine, err := util.GetOwnerMachine(ctx, r.Client, capstan.ObjectMeta)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("reading the Machine of %s: %w", capstan.Name, err)
		case err == nil && machine != nil && !machine.DeletionTimestamp.IsZero():
			continue
		case err == nil && machine != nil:
			last = machine
		}
		uid := last.GetUID()
		err = r.Client.Delete(ctx, last, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting machine %s, which has no other owner: %w", last.GetName(), err)
		}
		r.Recorder.Eventf(s.capstan, last, "Normal", infrav1.MachineDeletedEvent, "Delete",
			"deleted machine %s: its control plane no longer exists, so no other controller deletes it", last.GetName())
	}
	return nil
}

// deleteBalancer removes the balancer (IC-53). Without an owner there is no balancer, because a balancer is named after
// the owner.
func (r *Reconciler) deleteBalancer(ctx context.Context, s *scope) (step.Answer, error) {
	if !local(s.capstan) || s.name.Name == "" || r.Backends.Balancer == nil {
		return step.Next(), nil
	}
	if err := r.Backends.Delete(ctx, s.name); err != nil {
		s.obstacle = endpointFailed(s, err)
		return step.Answer{}, err
	}
	return step.Next(), nil
}

// removeFinalizer removes our finalizer, so that the object can be deleted (IC-55, IC-56).
func (r *Reconciler) removeFinalizer(ctx context.Context, s *scope) (step.Answer, error) {
	before := s.capstan.DeepCopy()
	controllerutil.RemoveFinalizer(s.capstan, infrav1.ClusterFinalizer)
	if err := patch.Object(ctx, r.Client, before, s.capstan, patch.Locked); client.IgnoreNotFound(err) != nil {
		return step.Answer{}, err
	}
	s.silent = true
	return step.Stop(), nil
}
