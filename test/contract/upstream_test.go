//go:build linux

package contract

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	deprecatedv1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/test/contract/rule"
)

func secretOf(ns, name, cluster string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}},
		Type:       clusterv1.ClusterSecretType, Data: data,
	}
}

// TestWithUpstream runs upstream's own reconcilers against the provider, with definitions that carry the label of one contract version only. A
// cluster comes up, its machines get Nodes, a machine set scales, a host dies and its machine is replaced, all is deleted.
func TestWithUpstream(t *testing.T) {
	for _, version := range rule.Versions {
		// Not in parallel: the labels are of the whole API server.
		t.Run(string(version), func(t *testing.T) { withUpstream(t, form{version}) })
	}
}

func withUpstream(t *testing.T, f form) {
	rule.In(t, f.Version, "T-IM-18", "T-IC-10",
		"IM-11", "IM-12", "IM-21", "IM-32", "IM-35", "IM-37", "IM-67", "IMT-01", "IMT-07", "IMT-08", "IMT-11", "IMT-14",
		"IC-08", "IC-10", "IC-17", "IC-21", "IC-24", "IC-27", "IC-57", "RB-05", "RB-06", "RB-08", "RB-09", "RB-11")
	w := newWorld(t, f, 6, func(w *world) {
		w.options.HeartbeatTimeout = 5 * time.Second
		w.infra.nodes = true
	})
	w.serveContract()
	writes := &coreWrites{}
	stop, err := startCore(t.Context(), w.ns, writes)
	w.must(err)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("core ended with: %v", err)
		}
	})
	clusters := filmCluster(w, "demo")
	w.upstreamCluster("demo")
	checkUpstreamCluster(w, "demo", clusters)
	// Nodes are of the whole API server, so their names tell the versions apart.
	cp, worker := "cp-"+string(f.Version), "worker-"+string(f.Version)
	w.upstreamMachine(cp, true)
	w.upstreamMachine(worker, false)
	for _, name := range []string{cp, worker} {
		checkUpstreamMachine(w, name)
	}
	w.until("core sees the control plane", func() bool {
		return conditions.IsTrue(read(w, "demo", &clusterv1.Cluster{}), clusterv1.ClusterControlPlaneInitializedCondition)
	})

	set := "set-" + string(f.Version)
	w.newMachineSet(set, "demo", 1)
	w.nodesOf(set, 1)
	scale := func(n int32) {
		edit(w, read(w, set, &clusterv1.MachineSet{}), func(s *clusterv1.MachineSet) { s.Spec.Replicas = ptr.To(n) })
		w.nodesOf(set, int(n))
	}
	scale(3)
	scale(1)
	checkFromTemplate(w, set)
	checkOwnership(w)
	t.Run("a host dies", func(t *testing.T) {
		rule.In(t, f.Version, "IM-26")
		w.remediate(set, "demo")
	})
	t.Run("somebody else manages a cluster", func(t *testing.T) {
		rule.In(t, f.Version, "IC-34", "IC-35", "IC-36")
		externallyManaged(w)
	})
	t.Run("failures surface", func(t *testing.T) {
		rule.In(t, f.Version, "IM-25", "IC-32")
		checkFailuresSurface(w)
	})

	for _, o := range []client.Object{
		&clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: set}},
		&clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: set}},
	} {
		w.delete(o)
	}
	w.delete(read(w, "demo", &clusterv1.Cluster{}))
	w.until("the cluster is gone", func() bool {
		return client.IgnoreNotFound(shared.admin.Get(t.Context(), types.NamespacedName{Namespace: w.ns, Name: "demo"}, &clusterv1.Cluster{})) == nil &&
			w.cluster("demo") == nil
	})
	writes.check(w)
	if names, _ := w.infra.List(t.Context()); len(names) != 0 || len(w.claims()) != 0 {
		t.Errorf("left after the cluster: hosts %v, claims %v", names, w.claims())
	}
}

// upstreamCluster makes a Cluster and a CapstanCluster as a user would: core does the rest.
func (w *world) upstreamCluster(name string, edits ...func(*clusterv1.Cluster)) {
	w.Helper()
	u := w.newObject("CapstanCluster")
	u.SetNamespace(w.ns)
	u.SetName(name)
	u.Object["spec"] = map[string]any{"loadBalancer": map[string]any{"type": "Local"}}
	w.create(u)
	w.kubeconfig(name)
	c := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name},
		Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "CapstanCluster", Name: name,
		}},
	}
	for _, edit := range edits {
		edit(c)
	}
	w.create(c)
}

// upstreamMachine makes a Machine and a CapstanMachine as a user would.
func (w *world) upstreamMachine(name string, controlPlane bool) {
	w.Helper()
	u := w.newObject("CapstanMachine")
	u.SetNamespace(w.ns)
	u.SetName(name)
	w.create(u)
	w.newData(name + "-data")
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}},
		Spec: clusterv1.MachineSpec{
			ClusterName: "demo", Version: "v1.36.3", Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To(name + "-data")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CapstanMachine", Name: name},
		},
	}
	if controlPlane {
		m.Labels[clusterv1.MachineControlPlaneLabel] = ""
	}
	w.create(m)
}

// filmCluster records the revisions of the Cluster, which is core's.
func filmCluster(w *world, name string) func() []*clusterv1.Cluster {
	w.Helper()
	watch, err := shared.admin.Watch(w.Context(), &clusterv1.ClusterList{}, client.InNamespace(w.ns))
	w.must(err)
	seen := make(chan []*clusterv1.Cluster, 1)
	go func() {
		var all []*clusterv1.Cluster
		for e := range watch.ResultChan() {
			if c, ok := e.Object.(*clusterv1.Cluster); ok && c.Name == name {
				all = append(all, c)
			}
		}
		seen <- all
	}()
	return func() []*clusterv1.Cluster {
		watch.Stop()
		return <-seen
	}
}

// checkUpstreamCluster waits until core has taken over all that the CapstanCluster says, and looks at how it got there.
func checkUpstreamCluster(w *world, name string, film func() []*clusterv1.Cluster) {
	w.Helper()
	c := &clusterv1.Cluster{}
	w.until("the Cluster's infrastructure is provisioned and Ready is mirrored", func() bool {
		read(w, name, c)
		return ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false) && conditions.IsTrue(c, clusterv1.ClusterInfrastructureReadyCondition)
	})
	for _, c := range film() {
		if ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false) && (!c.Spec.ControlPlaneEndpoint.IsValid() || len(c.Status.FailureDomains) != 3) {
			w.Errorf("a revision of the Cluster is provisioned with endpoint %v and domains %v (IC-24)", c.Spec.ControlPlaneEndpoint, c.Status.FailureDomains)
		}
	}
	u := w.cluster(name)
	host, port := w.endpoint(u)
	if c.Spec.ControlPlaneEndpoint.Host != host || int64(c.Spec.ControlPlaneEndpoint.Port) != port {
		w.Errorf("the Cluster has endpoint %v, want %s port %d (IC-17)", c.Spec.ControlPlaneEndpoint, host, port)
	}
	var domains []string
	for _, d := range c.Status.FailureDomains {
		domains = append(domains, d.Name)
	}
	if !slices.Equal(domains, w.domains(u)) {
		w.Errorf("the Cluster has the domains %v, want %v (IC-21)", domains, w.domains(u))
	}
	if owners := u.GetOwnerReferences(); len(owners) != 1 || owners[0].Kind != "Cluster" || owners[0].UID != c.UID || u.GetLabels()[clusterv1.ClusterNameLabel] != name {
		w.Errorf("core set the owners %v and the labels %v (IC-57)", owners, u.GetLabels())
	}
	w.Attr("rule", "CT-89")
}

// checkUpstreamMachine waits until core has taken over all that the CapstanMachine says, Node included.
func checkUpstreamMachine(w *world, name string) {
	w.Helper()
	m := &clusterv1.Machine{}
	w.until("Machine "+name+" has its Node and mirrors Ready", func() bool {
		read(w, name, m)
		return ptr.Deref(m.Status.Initialization.InfrastructureProvisioned, false) && m.Status.NodeRef.IsDefined() &&
			conditions.IsTrue(m, clusterv1.MachineInfrastructureReadyCondition)
	})
	u := w.machine(name)
	node := &corev1.Node{}
	w.must(shared.admin.Get(w.Context(), types.NamespacedName{Name: m.Status.NodeRef.Name}, node))
	if id := w.providerID(u); m.Spec.ProviderID != id || node.Spec.ProviderID != id || id == "" {
		w.Errorf("provider ids: CapstanMachine %q, Machine %q, Node %q (IM-11, IM-12)", id, m.Spec.ProviderID, node.Spec.ProviderID)
	}
	var addresses []string
	for _, a := range m.Status.Addresses {
		addresses = append(addresses, string(a.Type)+" "+a.Address)
	}
	if !slices.Equal(addresses, w.addresses(u)) {
		w.Errorf("Machine %s has the addresses %v, want %v (IM-21)", name, addresses, w.addresses(u))
	}
	domain := m.Status.FailureDomain
	if w.Version == rule.V1Beta1 {
		domain = m.Spec.FailureDomain
	}
	if domain != w.domain(u) || domain == "" {
		w.Errorf("Machine %s is in %q, its CapstanMachine in %q (IM-21)", name, domain, w.domain(u))
	}
	owners := u.GetOwnerReferences()
	if len(owners) != 1 || owners[0].Kind != "Machine" || owners[0].UID != m.UID || !ptr.Deref(owners[0].Controller, false) ||
		u.GetLabels()[clusterv1.ClusterNameLabel] != m.Spec.ClusterName {
		w.Errorf("core set the owners %v and the labels %v (IM-67)", owners, u.GetLabels())
	}
	w.Attr("rule", "CT-90")
}

// nodesOf waits until a MachineSet has n Machines, all with a Node.
func (w *world) nodesOf(set string, n int) {
	w.Helper()
	w.until("the machine set has its machines", func() bool {
		machines := w.machinesOf(set)
		return len(machines) == n && !slices.ContainsFunc(machines, func(m clusterv1.Machine) bool { return !m.Status.NodeRef.IsDefined() })
	})
}

// checkFromTemplate looks at the objects that core made from a template.
func checkFromTemplate(w *world, set string) {
	w.Helper()
	for _, m := range w.machinesOf(set) {
		u := w.machine(m.Spec.InfrastructureRef.Name)
		if u == nil || u.GetLabels()["example.com/from"] != "template" {
			w.Errorf("Machine %s has an infrastructure that isn't made from the template (IMT-14): %v", m.Name, u)
		}
	}
}

// remediate lets the host of a machine die: the MachineHealthCheck sees it by the Machine's condition, and the set makes another one.
func (w *world) remediate(set, cluster string) {
	w.Helper()
	w.create(&clusterv1.MachineHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: set},
		Spec: clusterv1.MachineHealthCheckSpec{
			ClusterName: cluster, Selector: metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.MachineSetNameLabel: set}},
			Checks: clusterv1.MachineHealthCheckChecks{
				UnhealthyMachineConditions: []clusterv1.UnhealthyMachineCondition{{
					Type: clusterv1.MachineInfrastructureReadyCondition, Status: metav1.ConditionFalse, TimeoutSeconds: ptr.To[int32](2),
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
	w.until("the dead host is made anew", func() bool {
		h := w.host(host)
		return h.Spec.Claim == nil || h.Spec.Claim.Machine != old.Spec.InfrastructureRef.Name
	})
}

// checkFailuresSurface lets a machine fail for good and looks at the Machine: in v1beta1 it keeps the failure even if the object loses it, in v1beta2 it
// is told by a condition.
func checkFailuresSurface(w *world) {
	w.Helper()
	w.infra.set(func() { w.infra.fails["bad"] = true })
	w.upstreamMachine("bad", false)
	w.waitCondition("CapstanMachine", "bad", infrav1.ReadyCondition, "False "+infrav1.BootstrapFailedReason)
	m := &clusterv1.Machine{}
	w.until("the Machine tells of the failure", func() bool {
		read(w, "bad", m)
		c := conditions.Get(m, clusterv1.MachineInfrastructureReadyCondition)
		if w.Version == rule.V1Beta2 {
			return c != nil && c.Status == metav1.ConditionFalse && c.Reason == infrav1.BootstrapFailedReason
		}
		d := m.Status.Deprecated
		return d != nil && d.V1Beta1 != nil && d.V1Beta1.FailureReason != nil && d.V1Beta1.FailureMessage != nil
	})
	if w.Version == rule.V1Beta1 {
		w.failsForGood(m)
	}
	w.delete(m)
	w.gone("CapstanMachine", "bad")

	// A cluster whose endpoint is lost, in the same way.
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
	w.until("the Cluster tells of the failure", func() bool {
		read(w, "lost", c)
		ready := conditions.Get(c, clusterv1.ClusterInfrastructureReadyCondition)
		if w.Version == rule.V1Beta2 {
			return ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason == infrav1.EndpointMovedReason
		}
		d := c.Status.Deprecated
		return d != nil && d.V1Beta1 != nil && d.V1Beta1.FailureReason != nil && d.V1Beta1.FailureMessage != nil
	})
	w.delete(c)
	w.gone("CapstanCluster", "lost")
}

// failsForGood takes the failure back from the CapstanMachine of a Machine, while the provider is paused. Core sees that, but the Machine stays failed.
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
		w.Fatalf("the failure %s %q was not taken back", reason, message)
	}
	// Core takes no notice of a paused object, but looks at it when the Machine changes.
	edit(w, read(w, m.Name, &clusterv1.Machine{}), func(m *clusterv1.Machine) { metav1.SetMetaDataAnnotation(&m.ObjectMeta, "example.com/touched", "") })
	w.until("the Machine shows what changed", func() bool {
		c := deprecatedv1beta1conditions.Get(read(w, m.Name, m), clusterv1.InfrastructureReadyV1Beta1Condition)
		return c != nil && c.Message == better
	})
	if d := m.Status.Deprecated.V1Beta1; d.FailureReason == nil || d.FailureMessage == nil {
		w.Errorf("the Machine lost its failure: %+v", d)
	}
	edit(w, w.machine(m.Name), func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
}

// externallyManaged lets this test be the external system: what it writes, core takes over, and the provider changes nothing.
func externallyManaged(w *world) {
	w.Helper()
	u := w.newObject("CapstanCluster")
	u.SetNamespace(w.ns)
	u.SetName("external")
	u.SetAnnotations(map[string]string{clusterv1.ManagedByAnnotation: "this test"})
	u.Object["spec"] = map[string]any{"controlPlaneEndpoint": map[string]any{"host": "api.example.com", "port": int64(443)}}
	w.create(u)
	c := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "external"},
		Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "CapstanCluster", Name: "external",
		}},
	}
	w.create(c)
	w.until("core owns the object", func() bool { return len(w.cluster("external").GetOwnerReferences()) == 1 })
	u = w.cluster("external")
	if w.Version == rule.V1Beta1 {
		u.Object["status"] = map[string]any{"ready": true, "failureDomains": map[string]any{"rack-1": map[string]any{"controlPlane": true}}}
	} else {
		u.Object["status"] = map[string]any{
			"initialization": map[string]any{"provisioned": true},
			"failureDomains": []any{map[string]any{"name": "rack-1", "controlPlane": true}},
		}
	}
	w.must(shared.admin.Status().Update(w.Context(), u))
	w.until("the Cluster is provisioned", func() bool {
		read(w, "external", c)
		return ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false)
	})
	if c.Spec.ControlPlaneEndpoint.Host != "api.example.com" || len(c.Status.FailureDomains) != 1 || c.Status.FailureDomains[0].Name != "rack-1" {
		w.Errorf("core took over endpoint %v and domains %v", c.Spec.ControlPlaneEndpoint, c.Status.FailureDomains)
	}
	if u := w.cluster("external"); hasFinalizer(u) || len(w.conditionTypes(u)) != 0 || len(w.infra.made("balance external")) != 0 {
		w.Errorf("the provider touched it: %v", u.Object)
	}
	w.delete(c)
	w.gone("CapstanCluster", "external")
}
