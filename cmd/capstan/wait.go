package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	polling "github.com/capstan-dev/capstan/internal/poll"
)

// progress is how far a cluster is.
type progress struct {
	// Step names the current step; empty when the cluster is up.
	Step string
	// Detail says what is waited for.
	Detail string
}

// The steps of a cluster's way up, in order.
const (
	stepHooks        = "lifecycle hooks let the cluster through"
	stepEndpoint     = "control plane endpoint"
	stepControlPlane = "control plane initialized"
	stepNodes        = "all Nodes Ready"
)

var createSteps = []string{stepHooks, stepEndpoint, stepControlPlane, stepNodes}

// measure decides how far the cluster is. Pure.
func measure(cluster *clusterv1.Cluster, machines []clusterv1.Machine) progress {
	if !cluster.Spec.InfrastructureRef.IsDefined() {
		detail := "waiting for the topology controller"
		if c := condition(cluster.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition); c != nil && c.Status != metav1.ConditionTrue {
			detail = c.Message
		}
		return progress{stepHooks, oneLine(detail, 200)}
	}
	if cluster.Spec.ControlPlaneEndpoint.IsZero() || !ptr.Deref(cluster.Status.Initialization.InfrastructureProvisioned, false) {
		return progress{stepEndpoint, message(cluster.Status.Conditions, clusterv1.ClusterInfrastructureReadyCondition)}
	}
	if !ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false) {
		return progress{stepControlPlane, firstUnready(machines)}
	}
	want := wantedMachines(cluster)
	ready, outdated, live := 0, 0, 0
	for _, m := range machines {
		if m.DeletionTimestamp.IsZero() {
			live++
			if m.Spec.Version != cluster.Spec.Topology.Version {
				outdated++
				continue
			}
			if c := condition(m.Status.Conditions, clusterv1.MachineNodeReadyCondition); c != nil && c.Status == metav1.ConditionTrue && m.Status.NodeRef.IsDefined() {
				ready++
			}
		}
	}
	if outdated > 0 {
		detail := fmt.Sprintf("%d of %d machines have %s", live-outdated, want, cluster.Spec.Topology.Version)
		if c := condition(cluster.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition); c != nil && c.Status != metav1.ConditionTrue {
			detail += "; " + c.Message
		}
		return progress{stepNodes, oneLine(detail, 200)}
	}
	if ready != want || len(machines) != want {
		return progress{stepNodes, fmt.Sprintf("%d of %d; %s", ready, want, firstUnready(machines))}
	}
	return progress{}
}

// wantedMachines counts the machines that the topology asks for.
func wantedMachines(cluster *clusterv1.Cluster) int {
	topology := cluster.Spec.Topology
	n := int(ptr.Deref(topology.ControlPlane.Replicas, 1))
	for _, md := range topology.Workers.MachineDeployments {
		n += int(ptr.Deref(md.Replicas, 1))
	}
	return n
}

// firstUnready says what the first machine that is not ready waits for.
func firstUnready(machines []clusterv1.Machine) string {
	for _, m := range machines {
		if !m.DeletionTimestamp.IsZero() {
			return m.Name + " is being deleted"
		}
		for _, kind := range []string{clusterv1.MachineBootstrapConfigReadyCondition, clusterv1.MachineInfrastructureReadyCondition, clusterv1.MachineNodeReadyCondition} {
			if c := condition(m.Status.Conditions, kind); c != nil && c.Status != metav1.ConditionTrue {
				return oneLine(m.Name+": "+c.Message, 160)
			}
		}
	}
	return "waiting for machines"
}

func message(list []metav1.Condition, kind string) string {
	if c := condition(list, kind); c != nil {
		return oneLine(c.Message, 160)
	}
	return ""
}

// waitForCluster shows the cluster's way up, step by step, until all its Nodes are Ready.
func (a *app) waitForCluster(ctx context.Context, c client.WithWatch, name string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p := a.steps()
	at := 0
	p.Start(createSteps[0])
	last := progress{Step: stepHooks}
	err := poll(ctx, func() (bool, error) {
		cluster := &clusterv1.Cluster{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: name}, cluster); err != nil {
			return false, err
		}
		machines := &clusterv1.MachineList{}
		if err := c.List(ctx, machines, client.InNamespace(a.namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name}); err != nil {
			return false, err
		}
		last = measure(cluster, machines.Items)
		for at < len(createSteps) && createSteps[at] != last.Step {
			p.Done()
			if at++; at < len(createSteps) {
				p.Start(createSteps[at])
			}
		}
		if last.Step == "" {
			return true, nil
		}
		p.Detail(last.Detail)
		return false, nil
	})
	if err == nil {
		return nil
	}
	p.Fail()
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return hint("it goes on in the background; see: capstan cluster describe "+name+" --watch", "stopped waiting for cluster %s at %q: %s", name, last.Step, last.Detail)
	}
	return fmt.Errorf("watching cluster %s: %w", name, err)
}

// poll is [polling.Until], which also stops when the dock has ended: nothing can become true then.
func poll(ctx context.Context, done func() (bool, error)) error {
	return polling.Until(ctx, func() (bool, error) {
		ok, err := done()
		return ok || errors.Is(err, errDockEnded), err
	})
}
