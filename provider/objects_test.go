package provider

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/watchfilter"
)

func watchFilter(value string) watchfilter.Filter { return watchfilter.Filter(value) }

// uid returns the uid of the object with this name. The first characters of uids differ.
func uid(name string) types.UID {
	var h uint32 = 2166136261
	for _, b := range []byte(name) {
		h = (h ^ uint32(b)) * 16777619
	}
	return types.UID(fmt.Sprintf("%08x-%s", h, name))
}

// hosts returns n hosts in three zones.
func hosts(n int, supplier string) []client.Object {
	var out []client.Object
	for i := 1; i <= n; i++ {
		name := fmt.Sprintf("host-%02d", i)
		out = append(out, &infrav1.CapstanHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: uid(name)},
			Spec:       infrav1.CapstanHostSpec{Zone: "zone-" + string("abc"[(i-1)%3]), Supplier: supplier},
		})
	}
	return out
}

// demo returns a Cluster with its CapstanCluster, as Cluster API would create them.
func demo(kind infrav1.LoadBalancerType) []client.Object {
	c := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "demo", UID: uid("demo")},
		Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "CapstanCluster", Name: "demo-infra",
		}},
	}
	return []client.Object{c, &infrav1.CapstanCluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: "demo-infra", UID: uid("demo-infra"),
			Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "demo", UID: c.UID},
			},
		},
		Spec: infrav1.CapstanClusterSpec{LoadBalancer: infrav1.LoadBalancer{Type: kind}},
	}}
}

type machineEdit func(*clusterv1.Machine, *infrav1.CapstanMachine)

// member returns a Machine of demo with its CapstanMachine and bootstrap data, as Cluster API would create them.
func member(name string, controlPlane bool, edits ...machineEdit) []client.Object {
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: name, UID: uid("m" + name), Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"},
		},
		Spec: clusterv1.MachineSpec{
			ClusterName: "demo", Version: "v1.36.3",
			Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To(name + "-data")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: infrav1.GroupVersion.Group, Kind: "CapstanMachine", Name: name,
			},
		},
	}
	if controlPlane {
		m.Labels[clusterv1.MachineControlPlaneLabel] = ""
	}
	capstan := &infrav1.CapstanMachine{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns, Name: name, UID: uid(name), Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: m.UID, Controller: ptr.To(true),
		}},
	}}
	for _, e := range edits {
		e(m, capstan)
	}
	return []client.Object{m, capstan, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: name + "-data", Labels: map[string]string{infrav1.BootstrapDataLabel: ""},
		},
		Data: map[string][]byte{"value": []byte("data of " + name), "format": []byte("cloud-config")},
	}}
}

func join(groups ...[]client.Object) []client.Object {
	var out []client.Object
	for _, g := range groups {
		out = append(out, g...)
	}
	return out
}
