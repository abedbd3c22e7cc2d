//go:build linux

package contract

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func secretOf(ns, name, cluster string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster},
		},
		Type: clusterv1.ClusterSecretType, Data: data,
	}
}

// TestWithUpstream runs upstream's own reconcilers against the provider, with definitions that have only the label of
// one contract version. A cluster comes up, its machines get Nodes, a machine set scales, a host dies and its machine
// is replaced, and everything is deleted.
func TestWithUpstream(t *testing.T) {
	for _, version := range versions {
		// Don't run versions in parallel: the contract labels of definitions apply to the whole API server.
		t.Run(string(version), func(t *testing.T) { withUpstream(t, form{version}) })
	}
}

func withUpstream(t *testing.T, f form) {
	w := newWorld(t, f, 6, func(w *world) {
		w.options.HeartbeatTimeout = 5 * time.Second
		w.infra.nodes = true
	})
	w.serveContract()
	writes := &objectWrites{}
	stop, err := startCore(t.Context(), w.ns, writes)
	w.must(err)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("core ended with: %v", err)
		}
	})
	clusters, machines := filmCluster(w, "demo"), filmMachines(w)
	w.upstreamCluster("demo")
	checkUpstreamCluster(w, "demo", clusters)
	// Nodes are shared by the whole API server, so their names include the version.
	cp, worker := "cp-"+string(f.Version), "worker-"+string(f.Version)
	w.upstreamMachine(cp, true)
	w.upstreamMachine(worker, false)
	for _, name := range []string{cp, worker} {
		checkUpstreamMachine(w, name)
	}
	w.until("core sees that the control plane is initialized", func() bool {
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
	keepsItsFlag(w, worker)
	w.remediate(set, "demo")
	externallyManaged(w)
	keepsItsEndpoint(w)
	checkFailuresSurface(w)
	checkMachineFilms(w, machines(), worker)

	for _, o := range []client.Object{
		&clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: set}},
		&clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: set}},
	} {
		w.delete(o)
	}
	w.delete(read(w, "demo", &clusterv1.Cluster{}))
	w.until("the cluster is gone", func() bool {
		return client.IgnoreNotFound(shared.admin.Get(t.Context(), types.NamespacedName{Namespace: w.ns, Name: "demo"},
			&clusterv1.Cluster{})) == nil &&
			w.cluster("demo") == nil
	})
	writes.check(w)
	w.must(coreReadsByTheLabel(w))
	w.Attr("rule", "IC-10 "+string(w.Version))
	w.Attr("rule", "T-IM-18 "+string(w.Version))
	w.Attr("rule", "T-IC-10 "+string(w.Version))
	if names, _ := w.infra.List(t.Context()); len(names) != 0 || len(w.claims()) != 0 {
		t.Errorf("left after the deletion of the cluster: hosts %v, claims %v", names, w.claims())
	}
}

// upstreamCluster creates a Cluster and a CapstanCluster as a user would; core does the rest.
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

// upstreamMachine creates a Machine and a CapstanMachine as a user would.
func (w *world) upstreamMachine(name string, controlPlane bool) {
	w.Helper()
	u := w.newObject("CapstanMachine")
	u.SetNamespace(w.ns)
	u.SetName(name)
	w.create(u)
	w.newData(name + "-data")
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.ns, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"},
		},
		Spec: clusterv1.MachineSpec{
			ClusterName: "demo", Version: "v1.36.3", Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To(name + "-data")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: infrav1.GroupVersion.Group, Kind: "CapstanMachine", Name: name,
			},
		},
	}
	if controlPlane {
		m.Labels[clusterv1.MachineControlPlaneLabel] = ""
	}
	w.create(m)
}

// filmCluster records the revisions of the Cluster, which core writes.
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

// checkUpstreamCluster waits until core has copied everything from the CapstanCluster, and checks the revisions on the
// way.
func checkUpstreamCluster(w *world, name string, film func() []*clusterv1.Cluster) {
	w.Helper()
	c := &clusterv1.Cluster{}
	w.until("the Cluster's infrastructure is provisioned and Ready is mirrored", func() bool {
		read(w, name, c)
		return ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false) &&
			conditions.IsTrue(c, clusterv1.ClusterInfrastructureReadyCondition)
	})
	for _, c := range film() {
		if ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false) &&
			(!c.Spec.ControlPlaneEndpoint.IsValid() || len(c.Status.FailureDomains) != 3) {
			w.Errorf("a revision of the Cluster is provisioned with endpoint %v and domains %v (IC-24)",
				c.Spec.ControlPlaneEndpoint, c.Status.FailureDomains)
		}
	}
	w.Attr("rule", "IC-24 "+string(w.Version))
	w.Attr("rule", "IC-27 "+string(w.Version))
	u := w.cluster(name)
	host, port := w.endpoint(u)
	if c.Spec.ControlPlaneEndpoint.Host != host || int64(c.Spec.ControlPlaneEndpoint.Port) != port {
		w.Errorf("the Cluster has endpoint %v, want %s port %d (IC-17)", c.Spec.ControlPlaneEndpoint, host, port)
	}
	w.Attr("rule", "IC-17 "+string(w.Version))
	var domains []string
	for _, d := range c.Status.FailureDomains {
		domains = append(domains, d.Name)
	}
	if !slices.Equal(domains, w.domains(u)) {
		w.Errorf("the Cluster has the domains %v, want %v (IC-21)", domains, w.domains(u))
	}
	w.Attr("rule", "IC-21 "+string(w.Version))
	if owners := u.GetOwnerReferences(); len(owners) != 1 || owners[0].Kind != "Cluster" || owners[0].UID != c.UID ||
		u.GetLabels()[clusterv1.ClusterNameLabel] != name {
		w.Errorf("core set the owners %v and the labels %v, want the Cluster's (IC-57)", owners, u.GetLabels())
	}
	w.Attr("rule", "CT-89")
	w.Attr("rule", "IC-57 "+string(w.Version))
}

// checkUpstreamMachine waits until core has copied everything from the CapstanMachine and found the Node.
func checkUpstreamMachine(w *world, name string) {
	w.Helper()
	m := &clusterv1.Machine{}
	w.until("Machine "+name+" has its Node and mirrors Ready", func() bool {
		read(w, name, m)
		return ptr.Deref(m.Status.Initialization.InfrastructureProvisioned, false) && m.Status.NodeRef.IsDefined() &&
			conditions.IsTrue(m, clusterv1.MachineInfrastructureReadyCondition)
	})
	w.Attr("rule", "IM-32 "+string(w.Version))
	u := w.machine(name)
	node := &corev1.Node{}
	w.must(shared.admin.Get(w.Context(), types.NamespacedName{Name: m.Status.NodeRef.Name}, node))
	if id := w.providerID(u); m.Spec.ProviderID != id || node.Spec.ProviderID != id || id == "" {
		w.Errorf("provider ids: CapstanMachine %q, Machine %q, Node %q (IM-11, IM-12)", id, m.Spec.ProviderID,
			node.Spec.ProviderID)
	}
	w.Attr("rule", "IM-11 "+string(w.Version))
	w.Attr("rule", "IM-12 "+string(w.Version))
	var addresses []string
	for _, a := range m.Status.Addresses {
		addresses = append(addresses, string(a.Type)+" "+a.Address)
	}
	if !slices.Equal(addresses, w.addresses(u)) {
		w.Errorf("Machine %s has the addresses %v, want %v (IM-21)", name, addresses, w.addresses(u))
	}
	domain := m.Status.FailureDomain
	if w.Version == v1beta1 {
		domain = m.Spec.FailureDomain
	}
	if domain != w.domain(u) || domain == "" {
		w.Errorf("Machine %s is in %q, its CapstanMachine in %q (IM-21)", name, domain, w.domain(u))
	}
	owners := u.GetOwnerReferences()
	if len(owners) != 1 || owners[0].Kind != "Machine" || owners[0].UID != m.UID ||
		!ptr.Deref(owners[0].Controller, false) ||
		u.GetLabels()[clusterv1.ClusterNameLabel] != m.Spec.ClusterName {
		w.Errorf("core set the owners %v and the labels %v, want the Machine's (IM-67)", owners, u.GetLabels())
	}
	w.Attr("rule", "CT-90")
	w.Attr("rule", "IM-67 "+string(w.Version))
}

// nodesOf waits until a MachineSet has n Machines, all with a Node.
func (w *world) nodesOf(set string, n int) {
	w.Helper()
	w.until("the MachineSet has its machines, all with Nodes", func() bool {
		machines := w.machinesOf(set)
		return len(machines) == n && !slices.ContainsFunc(machines,
			func(m clusterv1.Machine) bool { return !m.Status.NodeRef.IsDefined() })
	})
}

// checkFromTemplate checks the objects that core created from a template.
func checkFromTemplate(w *world, set string) {
	w.Helper()
	for _, m := range w.machinesOf(set) {
		u := w.machine(m.Spec.InfrastructureRef.Name)
		if u == nil || u.GetLabels()["example.com/from"] != "template" {
			w.Errorf("the CapstanMachine of Machine %s was not made from the template (IMT-14): %v", m.Name, u)
		}
	}
	w.Attr("rule", "IMT-08 "+string(w.Version))
	w.Attr("rule", "IMT-14 "+string(w.Version))
}
