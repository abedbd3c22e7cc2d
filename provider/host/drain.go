package host

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/claim"
	"github.com/capstan-dev/capstan/provider/step"
)

// redrain is how often a drain is checked, because changes of Machines don't start passes over hosts.
const redrain = 5 * time.Second

// memberConditions are the conditions in which a control plane provider reports the health of a member. Not all
// providers write them.
var memberConditions = []string{"EtcdMemberHealthy", "APIServerPodHealthy"}

// drain deletes the Machine on the host if the host's spec asks for it. Cluster API does the rest according to the
// Machine's own settings: it drains the node, waits for hooks, volumes and disruption budgets, and deletes the
// CapstanMachine, which releases the host. The owner of the Machine creates a replacement on another host.
func (r *Reconciler) drain(ctx context.Context, s *scope) (step.Answer, error) {
	c := s.host.Spec.Claim
	if !s.host.Spec.Drains() || c == nil || c.Released {
		return step.Next(), nil
	}
	s.sooner(redrain)
	machine, err := r.machineOn(ctx, s.host)
	if err != nil {
		return step.Answer{}, err
	}
	if machine == nil {
		s.drain = waitForMachine("machine %s has the host, but no Machine owns it: delete CapstanMachine %[1]s, or set "+
			"spec.claim.released: true", c.Machine)
		return step.Next(), nil
	}
	cluster, err := util.GetClusterByName(ctx, r.Client, machine.Namespace, machine.Spec.ClusterName)
	if client.IgnoreNotFound(err) != nil {
		return step.Answer{}, fmt.Errorf("reading Cluster %s: %w", machine.Spec.ClusterName, err)
	}
	// Allow one pass at a time, and bypass the cache: two passes must not delete two members of one control plane.
	r.draining.Lock()
	defer r.draining.Unlock()
	var members []clusterv1.Machine
	if util.IsControlPlaneMachine(machine) && machine.DeletionTimestamp.IsZero() {
		list := &clusterv1.MachineList{}
		if err := r.Reader.List(ctx, list, client.InNamespace(machine.Namespace), client.MatchingLabels{
			clusterv1.ClusterNameLabel: machine.Spec.ClusterName,
		}, client.HasLabels{clusterv1.MachineControlPlaneLabel}); err != nil {
			return step.Answer{}, fmt.Errorf("listing the control plane of Cluster %s: %w", machine.Spec.ClusterName, err)
		}
		members = list.Items
	}
	paused := annotations.HasPaused(machine) || err == nil && annotations.IsPaused(cluster, machine)
	if s.drain = mayGo(machine, paused, members); s.drain != nil {
		return step.Next(), nil
	}
	err = r.Client.Delete(ctx, machine, client.Preconditions{UID: &machine.UID, ResourceVersion: &machine.ResourceVersion})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // the next pass checks again
	case err != nil:
		return step.Answer{}, fmt.Errorf("deleting Machine %s: %w", machine.Name, err)
	default:
		r.Recorder.Eventf(s.host, machine, "Normal", infrav1.DrainingEvent, "Drain",
			"deleted Machine %s to drain the host",
			machine.Name)
	}
	s.drain = waitForMachine("Machine %s is being deleted", machine.Name)
	return step.Next(), nil
}

// machineOn returns the Machine of the CapstanMachine that has the host, or nil if there is none.
func (r *Reconciler) machineOn(ctx context.Context, host *infrav1.CapstanHost) (*clusterv1.Machine, error) {
	capstan := &infrav1.CapstanMachine{}
	key := types.NamespacedName{Namespace: host.Namespace, Name: host.Spec.Claim.Machine}
	if err := r.Client.Get(ctx, key, capstan); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !claim.Holds(host, capstan) {
		return nil, nil
	}
	machine, err := util.GetOwnerMachine(ctx, r.Client, capstan.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the owner of CapstanMachine %s: %w", capstan.Name, err)
	}
	if err != nil {
		return nil, nil
	}
	return machine, nil
}

// mayGo returns why a Machine can't be deleted for a drain, or what its deletion waits for if it is being deleted
// already. It returns nil if the Machine may be deleted. members are the Machines of its control plane. mayGo is pure.
func mayGo(machine *clusterv1.Machine, paused bool, members []clusterv1.Machine) *step.Obstacle {
	switch {
	case !machine.DeletionTimestamp.IsZero():
		what := ""
		if c := conditions.Get(machine, clusterv1.DeletingCondition); c != nil && c.Message != "" {
			what = ": " + c.Message
		}
		return waitForMachine("Machine %s is being deleted%s", machine.Name, what)
	case paused:
		return waitForMachine("Machine %s is paused: it is deleted once it is resumed", machine.Name)
	case !util.IsControlPlaneMachine(machine):
		return nil
	}
	others, healthy := 0, 0
	for i := range members {
		m := &members[i]
		switch {
		case m.UID == machine.UID:
		case !m.DeletionTimestamp.IsZero():
			return atRisk("Machine %s of the same control plane is being deleted: control plane machines are deleted one at a "+
				"time", m.Name)
		default:
			others++
			if isHealthy(m) {
				healthy++
			}
		}
	}
	switch {
	case others == 0:
		return atRisk("Machine %s is the only control plane machine of Cluster %s: scale the control plane up first, or "+
			"delete the Cluster",
			machine.Name, machine.Spec.ClusterName)
	case healthy < others/2+1:
		return atRisk("only %d of the %d other control plane machines of Cluster %s are healthy: too few for a majority",
			healthy, others, machine.Spec.ClusterName)
	}
	return nil
}

// isHealthy reports whether a control plane Machine has a Node, and all memberConditions that it has are True.
func isHealthy(m *clusterv1.Machine) bool {
	if !m.Status.NodeRef.IsDefined() {
		return false
	}
	for _, kind := range memberConditions {
		if c := conditions.Get(m, kind); c != nil && c.Status != metav1.ConditionTrue {
			return false
		}
	}
	return true
}

func waitForMachine(format string, args ...any) *step.Obstacle {
	return &step.Obstacle{Reason: infrav1.WaitingForMachineReason, Message: fmt.Sprintf(format, args...)}
}

func atRisk(format string, args ...any) *step.Obstacle {
	return &step.Obstacle{Reason: infrav1.ControlPlaneAtRiskReason, Message: fmt.Sprintf(format, args...)}
}
