//go:build linux

package admission

import (
	"fmt"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// may asks the API server whether a user may do something.
func may(t *testing.T, who client.Client, namespace, group, resource, subresource, verb string) bool {
	t.Helper()
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Group: group, Resource: resource, Subresource: subresource, Verb: verb,
		},
	}}
	must(t, who.Create(t.Context(), review))
	return review.Status.Allowed
}

// landlord creates a user who has every right that a person can have in one namespace.
func landlord(t *testing.T, name, ns string) client.Client {
	t.Helper()
	for _, role := range []string{"admin", "capstan-inventory", "capstan-mover"} {
		bind(t, ns, role, name)
	}
	who := as(t, name)
	deadline := time.Now().Add(time.Minute)
	for !may(t, who, ns, infrav1.GroupVersion.Group, "capstanmachines", "", "deletecollection") {
		if time.Now().After(deadline) {
			t.Fatal("role admin does not have the rights of capstan-edit")
		}
		time.Sleep(50 * time.Millisecond)
	}
	return who
}

// TestNamespacesAreApart checks that the rights of an admin of one namespace do not extend to other namespaces.
func TestNamespacesAreApart(t *testing.T) {
	own, other := namespace(t), namespace(t)
	who := landlord(t, "landlord", own)
	ours := infrav1.GroupVersion.Group
	type right struct{ group, resource, subresource, verb string }
	var rights []right
	all := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	for _, resource := range []string{
		"capstanclusters", "capstanclustertemplates", "capstanhosts", "capstanmachines", "capstanmachinetemplates",
	} {
		for _, verb := range all {
			rights = append(rights, right{ours, resource, "", verb})
		}
	}
	for _, resource := range []string{"secrets", "configmaps", "serviceaccounts"} {
		for _, verb := range all {
			rights = append(rights, right{"", resource, "", verb})
		}
	}
	rights = append(rights,
		right{ours, "capstanhosts", "claim", "assign"}, right{ours, "capstanhosts", "claim", "release"},
		right{ours, "capstanhosts", "handover", "assign"}, right{ours, "capstanmachines", "providerid", "assign"},
		right{"", "serviceaccounts", "token", "create"}, right{"coordination.k8s.io", "leases", "", "update"},
		right{"rbac.authorization.k8s.io", "rolebindings", "", "create"})
	for _, r := range rights {
		if !may(t, who, own, r.group, r.resource, r.subresource, r.verb) {
			t.Errorf("an admin may not %s %s/%s in the admin's own namespace", r.verb, r.resource, r.subresource)
		}
		for _, elsewhere := range []string{other, "kube-system", "default", ""} {
			if may(t, who, elsewhere, r.group, r.resource, r.subresource, r.verb) {
				t.Errorf("an admin may %s %s/%s in namespace %q, too", r.verb, r.resource, r.subresource, elsewhere)
			}
		}
	}
	for _, r := range []right{
		{ours, "capstanhosts", "status", "update"}, {ours, "capstanmachines", "status", "update"},
		{ours, "capstanclusters", "status", "patch"},
		{"admissionregistration.k8s.io", "validatingadmissionpolicies", "", "delete"},
		{"admissionregistration.k8s.io", "validatingadmissionpolicybindings", "", "delete"},
		{"apiextensions.k8s.io", "customresourcedefinitions", "", "patch"},
		{"rbac.authorization.k8s.io", "clusterroles", "", "update"}, {"", "namespaces", "", "create"},
		{"", "nodes", "", "get"},
	} {
		if may(t, who, own, r.group, r.resource, r.subresource, r.verb) {
			t.Errorf("an admin of a namespace may %s %s/%s", r.verb, r.resource, r.subresource)
		}
		if !may(t, admin, own, r.group, r.resource, r.subresource, r.verb) {
			t.Errorf("a cluster's administrator may not %s %s/%s", r.verb, r.resource, r.subresource)
		}
	}
}

// TestRequestsStayInTheirNamespace makes the same requests in the user's own namespace and in another one.
func TestRequestsStayInTheirNamespace(t *testing.T) {
	own, other := namespace(t), namespace(t)
	who := landlord(t, "lady", own)
	objects := map[string]func(ns, name string) client.Object{
		"CapstanCluster": func(ns, name string) client.Object {
			return &infrav1.CapstanCluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		},
		"CapstanMachine": func(ns, name string) client.Object {
			return &infrav1.CapstanMachine{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		},
		"CapstanHost": func(ns, name string) client.Object {
			return &infrav1.CapstanHost{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: infrav1.CapstanHostSpec{Zone: "a"},
			}
		},
		"Secret": func(ns, name string) client.Object {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		},
		"Lease": func(ns, name string) client.Object {
			return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		},
	}
	for kind, object := range objects {
		theirs := object(other, "theirs")
		must(t, admin.Create(t.Context(), theirs))
		for verb, request := range map[string]func(o client.Object) error{
			"create": func(o client.Object) error {
				return who.Create(t.Context(), object(o.GetNamespace(), "new"), client.DryRunAll)
			},
			"get": func(o client.Object) error { return who.Get(t.Context(), client.ObjectKeyFromObject(o), o) },
			"update": func(o client.Object) error {
				o.SetLabels(map[string]string{"a": "b"})
				return who.Update(t.Context(), o)
			},
			"patch": func(o client.Object) error {
				return who.Patch(t.Context(), o, client.RawPatch(merge, []byte(`{"metadata":{"labels":{"a":"b"}}}`)))
			},
			"delete": func(o client.Object) error { return who.Delete(t.Context(), o, client.DryRunAll) },
			"delete all": func(o client.Object) error {
				if kind == "CapstanHost" {
					return who.Delete(t.Context(), o, client.DryRunAll) // no role allows deletecollection of hosts
				}
				return who.DeleteAllOf(t.Context(), o, client.InNamespace(o.GetNamespace()), client.DryRunAll)
			},
		} {
			t.Run(fmt.Sprint(verb, " ", kind), func(t *testing.T) {
				mine := object(own, "mine")
				must(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), mine)))
				must(t, admin.Get(t.Context(), client.ObjectKeyFromObject(mine), mine))
				must(t, request(mine))
				refused(t, request(theirs.DeepCopyObject().(client.Object)))
			})
		}
	}
	t.Run("an admin can't grant rights that the admin does not have", func(t *testing.T) {
		bind(t, own, "admin", "plain")
		binding := func() *rbacv1.RoleBinding {
			return &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: own, GenerateName: "b-"},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "capstan-mover"},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "plain"}},
			}
		}
		refused(t, as(t, "plain").Create(t.Context(), binding()))
		must(t, who.Create(t.Context(), binding()))
	})
}
