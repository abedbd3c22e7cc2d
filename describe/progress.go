package describe

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/poll"
	"github.com/capstan-dev/capstan/internal/text"
	"github.com/capstan-dev/capstan/topology"
)

// Step is a step in the creation of a cluster, in words for people.
type Step string

// The steps in the creation of a cluster, in order.
const (
	StepHooks        Step = "lifecycle hooks let the cluster through"
	StepEndpoint     Step = "control plane endpoint"
	StepControlPlane Step = "control plane initialized"
	StepNodes        Step = "all Nodes Ready"
)

// Steps returns the steps in order.
func Steps() []Step { return []Step{StepHooks, StepEndpoint, StepControlPlane, StepNodes} }

// Progress is the progress of a cluster's creation.
type Progress struct {
	// Step is the current step. It is empty when the cluster is up.
	Step Step
	// Detail says what the step is waiting for.
	Detail string
}

// Measure returns the progress of a cluster with a topology. machines are all machines of the cluster.
func Measure(cluster *clusterv1.Cluster, machines []clusterv1.Machine) Progress {
	if !cluster.Spec.InfrastructureRef.IsDefined() {
		detail := "waiting for the topology controller"
		if c := notTrue(cluster.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition); c != nil {
			detail = c.Message
		}
		return Progress{StepHooks, text.OneLine(detail, 200)}
	}
	initialization := cluster.Status.Initialization
	if cluster.Spec.ControlPlaneEndpoint.IsZero() || !ptr.Deref(initialization.InfrastructureProvisioned, false) {
		detail := messageOf(cluster.Status.Conditions, clusterv1.ClusterInfrastructureReadyCondition)
		return Progress{StepEndpoint, detail}
	}
	if !ptr.Deref(initialization.ControlPlaneInitialized, false) {
		return Progress{StepControlPlane, FirstUnready(machines)}
	}
	want := topology.Machines(cluster)
	ready, outdated, live := 0, 0, 0
	for _, m := range machines {
		if m.DeletionTimestamp.IsZero() {
			live++
			if m.Spec.Version != cluster.Spec.Topology.Version {
				outdated++
				continue
			}
			healthy := meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineNodeReadyCondition)
			if healthy && m.Status.NodeRef.IsDefined() {
				ready++
			}
		}
	}
	if outdated > 0 {
		detail := fmt.Sprintf("%d of %d machines have %s", live-outdated, want, cluster.Spec.Topology.Version)
		if c := notTrue(cluster.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition); c != nil {
			detail += "; " + c.Message
		}
		return Progress{StepNodes, text.OneLine(detail, 200)}
	}
	if ready != want || len(machines) != want {
		return Progress{StepNodes, fmt.Sprintf("%d of %d; %s", ready, want, FirstUnready(machines))}
	}
	return Progress{}
}

// FirstUnready says what the first machine that is not ready is waiting for.
func FirstUnready(machines []clusterv1.Machine) string {
	for _, m := range machines {
		if !m.DeletionTimestamp.IsZero() {
			return m.Name + " is being deleted"
		}
		for _, kind := range []string{
			clusterv1.MachineBootstrapConfigReadyCondition, clusterv1.MachineInfrastructureReadyCondition,
			clusterv1.MachineNodeReadyCondition,
		} {
			if c := notTrue(m.Status.Conditions, kind); c != nil {
				return text.OneLine(m.Name+": "+c.Message, 160)
			}
		}
	}
	return "waiting for machines"
}

// messageOf returns the message of a condition as a single line.
func messageOf(list []metav1.Condition, kind string) string {
	if c := meta.FindStatusCondition(list, kind); c != nil {
		return text.OneLine(c.Message, 160)
	}
	return ""
}

// Wait calls report with the progress of a cluster until all its Nodes are Ready; the last report has no step. If ctx
// is done first, the error says what the cluster was waiting for.
func Wait(ctx context.Context, c client.Reader, cluster client.ObjectKey, report func(Progress)) error {
	last := Progress{Step: StepHooks}
	err := poll.Until(ctx, func() (bool, error) {
		object, machines := &clusterv1.Cluster{}, &clusterv1.MachineList{}
		if err := c.Get(ctx, cluster, object); err != nil {
			return false, err
		}
		if err := c.List(ctx, machines, of(cluster)...); err != nil {
			return false, err
		}
		last = Measure(object, machines.Items)
		report(last)
		return last.Step == "", nil
	})
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return hint.Errorf("the work on the cluster continues; see: capstan cluster describe "+cluster.Name+" --watch",
			"stopped waiting for cluster %s at %q: %s", cluster.Name, last.Step, last.Detail)
	}
	if err != nil {
		return fmt.Errorf("watching cluster %s: %w", cluster.Name, err)
	}
	return nil
}

// WaitDeleted calls report with what blocks the deletion of a cluster until the cluster is gone or ctx is done.
func WaitDeleted(ctx context.Context, c client.Reader, cluster client.ObjectKey, report func(string)) error {
	last := ""
	err := poll.Until(ctx, func() (bool, error) {
		object := &clusterv1.Cluster{}
		err := c.Get(ctx, cluster, object)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if m := messageOf(object.Status.Conditions, clusterv1.ClusterDeletingCondition); m != "" {
			last = strings.TrimPrefix(m, "* ")
			report(last)
		}
		return false, nil
	})
	if ctx.Err() != nil && err != nil {
		return hint.Errorf("the deletion continues in the background; see: capstan cluster describe "+cluster.Name,
			"stopped waiting for the deletion of cluster %s: %s", cluster.Name, last)
	}
	return err
}
