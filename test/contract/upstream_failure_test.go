//go:build linux

package contract

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	deprecatedv1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// remediate silences the agent of a machine's host, as if the host had died. A MachineHealthCheck notices that by the
// Machine's condition, and the MachineSet creates another Machine.
func (w *world) remediate(set, cluster string) {
	w.Helper()
	w.create(&clusterv1.MachineHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: set},
		Spec: clusterv1.MachineHealthCheckSpec{
			ClusterName: cluster,
			Selector:    metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.MachineSetNameLabel: set}},
			Checks: clusterv1.MachineHealthCheckChecks{
				UnhealthyMachineConditions: []clusterv1.UnhealthyMachineCondition{{
					Type: clusterv1.MachineInfrastructureReadyCondition, Status: metav1.ConditionFalse,
					TimeoutSeconds: ptr.To[int32](2),
				}},
			},
		},
	})
	old := w.machinesOf(set)[0]
	host := w.claims()[old.Spec.InfrastructureRef.Name]
	w.infra.set(func() { w.infra.dead[host] = true })
	w.until("the machine of the dead host is replaced", func() bool {
		machines := w.machinesOf(set)
		return len(machines) == 1 && machines[0].Name != old.Name && machines[0].Status.NodeRef.IsDefined()
	})
	w.gone("CapstanMachine", old.Spec.InfrastructureRef.Name)
	w.until("the dead host is released", func() bool {
		h := w.host(host)
		return h.Spec.Claim == nil || h.Spec.Claim.Machine != old.Spec.InfrastructureRef.Name
	})
}

// hasFailed reports whether a Machine has the failure fields of contract v1beta1.
func hasFailed(m *clusterv1.Machine) bool {
	d := m.Status.Deprecated
	return d != nil && d.V1Beta1 != nil && d.V1Beta1.FailureReason != nil && d.V1Beta1.FailureMessage != nil
}

// checkFailuresSurface makes a CapstanMachine fail for good and checks its Machine. In v1beta1 the Machine keeps the
// failure even if the CapstanMachine loses it. In v1beta2 a condition of the Machine reports the failure.
func checkFailuresSurface(w *world) {
	w.Helper()
	w.infra.set(func() { w.infra.fails["bad"] = true })
	w.upstreamMachine("bad", false)
	w.waitCondition("CapstanMachine", "bad", infrav1.ReadyCondition, "False "+infrav1.BootstrapFailedReason)
	m := &clusterv1.Machine{}
	w.until("the Machine shows the failure", func() bool {
		read(w, "bad", m)
		c := conditions.Get(m, clusterv1.MachineInfrastructureReadyCondition)
		if w.Version == v1beta2 {
			return c != nil && c.Status == metav1.ConditionFalse && c.Reason == infrav1.BootstrapFailedReason
		}
		return hasFailed(m)
	})
	if w.Version == v1beta1 {
		w.failsForGood(m)
		w.Attr("rule", "IM-25 v1beta1")
	} else {
		if hasFailed(m) || m.Status.Phase == string(clusterv1.MachinePhaseFailed) {
			w.Errorf("the Machine has a terminal failure, in phase %s: %+v", m.Status.Phase, m.Status.Deprecated)
		}
		w.Attr("rule", "IM-25 v1beta2")
	}
	w.delete(m)
	w.gone("CapstanMachine", "bad")

	// Now make a CapstanCluster fail for good: its endpoint is lost.
	u := w.newObject("CapstanCluster")
	u.SetNamespace(w.ns)
	u.SetName("lost")
	u.Object["spec"] = map[string]any{
		"loadBalancer":         map[string]any{"type": "Local"},
		"controlPlaneEndpoint": map[string]any{"host": "10.231.17.17", "port": int64(6443)},
	}
	w.create(u)
	c := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "lost"},
		Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "CapstanCluster", Name: "lost",
		}},
	}
	w.create(c)
	w.until("the Cluster shows the failure", func() bool {
		read(w, "lost", c)
		ready := conditions.Get(c, clusterv1.ClusterInfrastructureReadyCondition)
		if w.Version == v1beta2 {
			return ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason == infrav1.EndpointMovedReason
		}
		d := c.Status.Deprecated
		return d != nil && d.V1Beta1 != nil && d.V1Beta1.FailureReason != nil && d.V1Beta1.FailureMessage != nil
	})
	w.Attr("rule", "IC-32 "+string(w.Version))
	w.delete(c)
	w.gone("CapstanCluster", "lost")
}

// failsForGood removes the failure from the CapstanMachine of a Machine, while the provider is paused. Core sees that,
// but the Machine stays failed.
func (w *world) failsForGood(m *clusterv1.Machine) {
	w.Helper()
	edit(w, w.machine(m.Name), func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""})
	})
	w.waitCondition("CapstanMachine", m.Name, clusterv1.PausedCondition, "True")
	const better = "somebody says that all is well again"
	u := w.machine(m.Name)
	unstructured.RemoveNestedField(u.Object, "status", "failureReason")
	unstructured.RemoveNestedField(u.Object, "status", "failureMessage")
	list, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
	w.must(err)
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && c["type"] == infrav1.ReadyCondition {
			c["message"] = better
		}
	}
	w.must(unstructured.SetNestedSlice(u.Object, list, "status", "conditions"))
	w.must(shared.admin.Status().Update(w.Context(), u))
	if reason, message := w.failure(w.machine(m.Name)); reason != "" || message != "" {
		w.Fatalf("the failure %s %q was not removed from the CapstanMachine", reason, message)
	}
	w.until("the Machine shows the changed condition", func() bool {
		w.touchMachine(m.Name)
		c := deprecatedv1beta1conditions.Get(read(w, m.Name, m), clusterv1.InfrastructureReadyV1Beta1Condition)
		return c != nil && c.Message == better
	})
	if d := m.Status.Deprecated.V1Beta1; d.FailureReason == nil || d.FailureMessage == nil {
		w.Errorf("the Machine lost its failure: %+v", d)
	}
	edit(w, w.machine(m.Name), func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
}
