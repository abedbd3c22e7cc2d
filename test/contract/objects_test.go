//go:build linux

package contract

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// These functions create objects in the state in which core leaves them. Tests that run core itself create less.

// newCluster creates a Cluster and its CapstanCluster, which has a local balancer and is owned by the Cluster. The
// functions in edit change both objects before they are created.
func (w *world) newCluster(name string, edit ...func(*clusterv1.Cluster,
	*unstructured.Unstructured)) *clusterv1.Cluster {
	w.Helper()
	c := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name},
		Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "CapstanCluster", Name: name,
		}},
	}
	u := w.newObject("CapstanCluster")
	u.SetNamespace(w.ns)
	u.SetName(name)
	u.SetLabels(map[string]string{clusterv1.ClusterNameLabel: name})
	w.must(unstructured.SetNestedField(u.Object, "Local", "spec", "loadBalancer", "type"))
	for _, e := range edit {
		e(c, u)
	}
	w.create(c)
	u.SetOwnerReferences([]metav1.OwnerReference{ownerCluster(c)})
	w.create(u)
	return c
}

func ownerCluster(c *clusterv1.Cluster) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: c.Name, UID: c.UID}
}

// provisionedCluster creates a cluster, waits until the CapstanCluster is provisioned, and reports that in the status
// of the Cluster, as core would.
func (w *world) provisionedCluster(name string) *clusterv1.Cluster {
	w.Helper()
	c := w.newCluster(name)
	w.until("cluster "+name+" is provisioned", func() bool { return w.flag(w.cluster(name)) })
	w.setProvisioned(name, true)
	return read(w, name, c)
}

// setProvisioned sets whether the infrastructure of a Cluster is provisioned (CLUSTER-READY). In a real management
// cluster, core does this.
func (w *world) setProvisioned(cluster string, provisioned bool) {
	w.Helper()
	c := read(w, cluster, &clusterv1.Cluster{})
	c.Status.Initialization.InfrastructureProvisioned = ptr.To(provisioned)
	w.must(shared.admin.Status().Update(w.Context(), c))
}

// machineOptions say how a machine differs from a worker that has everything that it needs.
type machineOptions struct {
	cluster      string // default: demo
	zone         string
	controlPlane bool
	noOwner      bool
	noData       bool
	noLabel      bool // without the label of the cluster
	labels       map[string]string
	annotations  map[string]string
}

// newMachine creates a Machine, its bootstrap data, and the CapstanMachine that it owns, all with the same name.
func (w *world) newMachine(name string, o machineOptions) *clusterv1.Machine {
	w.Helper()
	if o.cluster == "" {
		o.cluster = "demo"
	}
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.ns, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: o.cluster},
		},
		Spec: clusterv1.MachineSpec{
			ClusterName: o.cluster, Version: "v1.36.3", FailureDomain: o.zone,
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: infrav1.GroupVersion.Group, Kind: "CapstanMachine", Name: name,
			},
			Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To(name + "-data")},
		},
	}
	if o.controlPlane {
		m.Labels[clusterv1.MachineControlPlaneLabel] = ""
	}
	if o.noData {
		m.Spec.Bootstrap = clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: name,
		}}
	}
	w.create(m)
	w.newData(name + "-data")
	w.newCapstanMachine(m, o)
	return m
}

// newData creates bootstrap data.
func (w *world) newData(name string) {
	w.Helper()
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.ns, Name: name, Labels: map[string]string{infrav1.BootstrapDataLabel: ""},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"value": []byte("#cloud-config\n"), "format": []byte("cloud-config")},
	})
}

// newCapstanMachine creates the CapstanMachine of a Machine.
func (w *world) newCapstanMachine(m *clusterv1.Machine, o machineOptions) {
	w.Helper()
	u := w.newObject("CapstanMachine")
	u.SetNamespace(w.ns)
	u.SetName(m.Name)
	labels := map[string]string{}
	if !o.noLabel {
		labels[clusterv1.ClusterNameLabel] = m.Spec.ClusterName
	}
	for k, v := range o.labels {
		labels[k] = v
	}
	u.SetLabels(labels)
	u.SetAnnotations(o.annotations)
	if !o.noOwner {
		u.SetOwnerReferences([]metav1.OwnerReference{ownerMachine(m)})
	}
	w.create(u)
}

func ownerMachine(m *clusterv1.Machine) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: m.Name, UID: m.UID, Controller: ptr.To(true),
	}
}

// host returns a host.
func (w *world) host(name string) *infrav1.CapstanHost {
	w.Helper()
	h := &infrav1.CapstanHost{}
	w.must(shared.admin.Get(w.Context(), types.NamespacedName{Namespace: w.ns, Name: name}, h))
	return h
}

// vanish removes a host from the inventory by force. It deletes the host first; otherwise the provider would set its
// finalizer again.
func (w *world) vanish(name string) {
	w.Helper()
	w.delete(w.host(name))
	edit(w, w.host(name), func(h *infrav1.CapstanHost) { h.Finalizers = nil })
}
