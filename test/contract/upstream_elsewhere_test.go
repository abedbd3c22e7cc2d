//go:build linux

package contract

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// elsewhere is a cluster that an external system manages. The test writes what that system would write.
type elsewhere struct {
	*world
	name string
}

// write writes the status of the CapstanCluster.
func (e elsewhere) write(change func(*unstructured.Unstructured)) {
	e.Helper()
	u := e.cluster(e.name)
	change(u)
	e.must(shared.admin.Status().Update(e.Context(), u))
}

// managedElsewhere plays the external system that manages a cluster: it writes endpoint, domains and flag, and core
// copies them. userEndpoint is the endpoint that the user set in the Cluster.
func managedElsewhere(w *world, name string, userEndpoint clusterv1.APIEndpoint) (elsewhere, *clusterv1.Cluster) {
	w.Helper()
	u := w.newObject("CapstanCluster")
	u.SetNamespace(w.ns)
	u.SetName(name)
	u.SetAnnotations(map[string]string{clusterv1.ManagedByAnnotation: "this test"})
	endpoint := map[string]any{"host": "api.example.com", "port": int64(443)}
	u.Object["spec"] = map[string]any{"controlPlaneEndpoint": endpoint}
	w.create(u)
	c := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name},
		Spec: clusterv1.ClusterSpec{
			ControlPlaneEndpoint: userEndpoint,
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: infrav1.GroupVersion.Group, Kind: "CapstanCluster", Name: name,
			},
		},
	}
	w.create(c)
	w.until("core owns the object", func() bool { return len(w.cluster(name).GetOwnerReferences()) == 1 })
	e := elsewhere{w, name}
	e.write(func(u *unstructured.Unstructured) {
		if w.Version == v1beta1 {
			u.Object["status"] = map[string]any{
				"ready": true, "failureDomains": map[string]any{"rack-1": map[string]any{"controlPlane": true}},
			}
			return
		}
		u.Object["status"] = map[string]any{
			"initialization": map[string]any{"provisioned": true},
			"failureDomains": []any{map[string]any{"name": "rack-1", "controlPlane": true}},
		}
	})
	w.until("the Cluster is provisioned", func() bool {
		read(w, name, c)
		return ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false)
	})
	return e, c
}

// externallyManaged checks that core copies what the external system writes, including a failure, and that the provider
// changes nothing.
func externallyManaged(w *world) {
	w.Helper()
	const name = "external"
	e, c := managedElsewhere(w, name, clusterv1.APIEndpoint{})
	if c.Spec.ControlPlaneEndpoint.Host != "api.example.com" || c.Spec.ControlPlaneEndpoint.Port != 443 ||
		len(c.Status.FailureDomains) != 1 || c.Status.FailureDomains[0].Name != "rack-1" {
		w.Errorf("core did not copy the external system's values: endpoint %v, domains %v", c.Spec.ControlPlaneEndpoint,
			c.Status.FailureDomains)
	}
	const words = "the racks are gone"
	e.write(func(u *unstructured.Unstructured) {
		if w.Version == v1beta1 {
			w.must(unstructured.SetNestedField(u.Object, "RacksGone", "status", "failureReason"))
			w.must(unstructured.SetNestedField(u.Object, words, "status", "failureMessage"))
			return
		}
		w.must(unstructured.SetNestedSlice(u.Object, []any{map[string]any{
			"type": infrav1.ReadyCondition, "status": "False", "reason": "RacksGone", "message": words,
			"lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339),
		}}, "status", "conditions"))
	})
	w.until("the Cluster shows the failure that the external system reported", func() bool {
		read(w, name, c)
		if w.Version == v1beta2 {
			ready := conditions.Get(c, clusterv1.ClusterInfrastructureReadyCondition)
			return ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason == "RacksGone"
		}
		d := c.Status.Deprecated
		return d != nil && d.V1Beta1 != nil && strings.Contains(ptr.Deref(d.V1Beta1.FailureMessage, ""), words)
	})
	w.Attr("rule", "IC-36 "+string(w.Version))
	u := w.cluster(name)
	if hasFinalizer(u) || len(w.infra.made("balance "+name)) != 0 {
		w.Errorf("the provider worked on a cluster that somebody else manages: %v", u.Object)
	}
	w.Attr("rule", "IC-34 "+string(w.Version))
	for _, f := range u.GetManagedFields() {
		if f.Manager == managerAccount {
			w.Errorf("the provider wrote fields of a cluster that somebody else manages: %v", f)
		}
	}
	w.Attr("rule", "IC-35 "+string(w.Version))
	w.delete(c)
	w.gone("CapstanCluster", name)
}

// keepsItsEndpoint checks that core keeps the endpoint that the user set in the Cluster, and does not replace it by the
// endpoint of the infrastructure object.
func keepsItsEndpoint(w *world) {
	w.Helper()
	own := clusterv1.APIEndpoint{Host: "mine.example.com", Port: 8443}
	_, c := managedElsewhere(w, "own-endpoint", own)
	if c.Spec.ControlPlaneEndpoint != own || len(c.Status.FailureDomains) != 1 {
		w.Errorf("core copied endpoint %v and domains %v; the Cluster had endpoint %v (IC-17)",
			c.Spec.ControlPlaneEndpoint, c.Status.FailureDomains, own)
	}
	w.Attr("rule", "IC-17 "+string(w.Version))
	w.delete(c)
	w.gone("CapstanCluster", "own-endpoint")
}
