package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/describe"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/poll"
)

// ReplaceOthers deletes the machines of the members that did not get the data. It waits until their owner has created
// new ones, which join the restored member.
func (r *Restore) ReplaceOthers(ctx context.Context) error {
	err := r.options.Step("other control plane machines replaced", func(detail func(string)) error {
		return r.replaceOthers(ctx, detail)
	})
	if err != nil {
		return fmt.Errorf("cluster %s has its data, but not all of its control plane: %w", r.options.Cluster.Name, err)
	}
	return nil
}

func (r *Restore) replaceOthers(ctx context.Context, detail func(string)) error {
	machines, err := r.machines(ctx)
	if err != nil {
		return err
	}
	left := map[types.UID]bool{}
	for _, h := range r.Plan.Hosts[1:] {
		for i := range machines {
			m := &machines[i]
			if m.Spec.InfrastructureRef.Name != h.Machine {
				continue
			}
			left[m.UID] = true
			if err := r.options.Plane.Delete(ctx, m); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("deleting machine %s: %w", m.Name, err)
			}
		}
	}
	if len(left) == 0 && !incomplete(machines) {
		return nil // no control plane machine is being created or deleted: nothing to wait for
	}
	last := ""
	err = poll.Until(ctx, func() (bool, error) {
		machines, err := r.machines(ctx)
		if err != nil {
			return false, err
		}
		last = missing(machines, left, r.replicas)
		detail(last)
		return last == "", nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		see := "capstan cluster describe " + r.options.Cluster.Name + " --watch"
		return hint.Errorf("the machines are still being replaced in the background; see: "+see,
			"stopped waiting for the other control plane machines: %s", last)
	}
	return err
}

// Orphans returns the names of machines whose Nodes the restored cluster does not know. Such machines were created
// after the backup.
func (r *Restore) Orphans(ctx context.Context) ([]string, error) {
	nodes, err := r.nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking at the Nodes of cluster %s: %w", r.options.Cluster.Name, err)
	}
	machines, err := r.machines(ctx)
	if err != nil {
		return nil, err
	}
	var orphans []string
	for _, m := range machines {
		node := m.Status.NodeRef
		if node.IsDefined() && m.DeletionTimestamp.IsZero() && !slices.Contains(nodes, node.Name) {
			orphans = append(orphans, m.Name)
		}
	}
	return orphans, nil
}

// incomplete reports whether a control plane machine is being created or deleted.
func incomplete(machines []clusterv1.Machine) bool {
	return slices.ContainsFunc(machines, func(m clusterv1.Machine) bool {
		_, is := m.Labels[clusterv1.MachineControlPlaneLabel]
		return is && (!m.DeletionTimestamp.IsZero() || !m.Status.NodeRef.IsDefined())
	})
}

// missing says what a control plane of this size still waits for. The control plane is complete once the deleted
// machines are gone and enough others are ready; missing then returns "".
func missing(machines []clusterv1.Machine, deleted map[types.UID]bool, want int) string {
	ready := 0
	var pending []clusterv1.Machine
	for _, m := range machines {
		if _, ok := m.Labels[clusterv1.MachineControlPlaneLabel]; !ok {
			continue
		}
		if deleted[m.UID] {
			return m.Name + " is being deleted"
		}
		healthy := meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineNodeReadyCondition)
		if healthy && m.DeletionTimestamp.IsZero() {
			ready++
		} else {
			pending = append(pending, m)
		}
	}
	if ready >= want {
		return ""
	}
	return fmt.Sprintf("%d of %d; %s", ready, want, describe.FirstUnready(pending))
}
