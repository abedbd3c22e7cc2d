//go:build linux

package contract

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/identity"
)

// graph has all objects of a namespace that may lead to a Cluster, by uid.
type graph map[types.UID]*unstructured.Unstructured

// add reads all objects of a kind.
func (g graph) add(w *world, gv schema.GroupVersion, kind string) {
	w.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gv.WithKind(kind + "List"))
	w.must(shared.admin.List(w.Context(), list, client.InNamespace(w.ns)))
	for _, o := range list.Items {
		g[o.GetUID()] = &o
	}
}

// leads reports whether a chain of owner references leads from an object to an object of the given kind. An object of
// that kind leads to itself.
func (g graph) leads(o *unstructured.Unstructured, kind string) bool {
	return o.GetKind() == kind || slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		owner := g[r.UID]
		return owner != nil && owner.GetKind() == r.Kind && owner.GetName() == r.Name && g.leads(owner, kind)
	})
}

// checkOwnership follows the owners of everything that exists for a cluster: objects of our kinds lead to a Cluster,
// and the provider's other objects lead to their host. A host leads to nothing, because it outlives the cluster; a
// claimed host has clusterctl's label instead.
func checkOwnership(w *world) {
	w.Helper()
	g := graph{}
	for _, kind := range []string{"Cluster", "Machine", "MachineSet"} {
		g.add(w, clusterv1.GroupVersion, kind)
	}
	for _, kind := range []string{"CapstanCluster", "CapstanMachine", "CapstanMachineTemplate", "CapstanHost"} {
		g.add(w, infrav1.GroupVersion, kind)
	}
	for group, kinds := range map[schema.GroupVersion][]string{
		{Version: "v1"}: {"Secret", "ServiceAccount"}, {Group: "coordination.k8s.io", Version: "v1"}: {"Lease"},
		{Group: "rbac.authorization.k8s.io", Version: "v1"}: {"Role", "RoleBinding"},
	} {
		for _, kind := range kinds {
			g.add(w, group, kind)
		}
	}
	found := map[string]int{}
	for _, o := range g {
		switch kind := o.GetKind(); {
		case kind == "CapstanHost":
			claimed, ok, _ := unstructured.NestedMap(o.Object, "spec", "claim")
			if _, moves := o.GetLabels()[clusterctlv1.ClusterctlMoveLabel]; ok != moves {
				w.Errorf("host %s has the claim %v, and clusterctl's label: %t; want the label on claimed hosts only",
					o.GetName(), claimed, moves)
			}
			found[kind]++
		case kind == "CapstanMachineTemplate" && len(o.GetOwnerReferences()) == 0: // before it is used
		case kind == "CapstanCluster" || kind == "CapstanMachine" || kind == "CapstanMachineTemplate":
			if !g.leads(o, "Cluster") {
				w.Errorf("%s %s does not lead to a Cluster: its owners are %v",
					kind, o.GetName(), o.GetOwnerReferences())
			}
			w.Attr("rule", "CT-88")
			found[kind]++
		case o.GetLabels()[identity.Label] != "":
			if !g.leads(o, "CapstanHost") {
				w.Errorf("%s %s does not lead to a host: its owners are %v", kind, o.GetName(), o.GetOwnerReferences())
			}
			w.Attr("rule", "CT-91")
			found[kind]++
		}
	}
	for _, kind := range []string{
		"CapstanCluster", "CapstanMachine", "CapstanMachineTemplate", "CapstanHost", "Secret", "ServiceAccount", "Lease",
		"Role", "RoleBinding",
	} {
		if found[kind] == 0 {
			w.Errorf("no %s was found: the test looks at the wrong objects", kind)
		}
	}
}
