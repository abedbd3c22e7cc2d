package identity

import (
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func api(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, rbacv1.AddToScheme, coordinationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func hostWith(uid types.UID) *infrav1.CapstanHost {
	return &infrav1.CapstanHost{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: uid}}
}

func owner(apiVersion, kind, name string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid}}
}

func TestOwns(t *testing.T) {
	const group = "infrastructure.capstan.dev/v1beta1" // any version of the group
	label := map[string]string{Label: "a"}
	delivered := map[string]string{ProviderIDAnnotation: "capstan://default/a/x"}
	byHost := owner(group, "CapstanHost", "a", "1")
	type object = metav1.ObjectMeta
	for name, c := range map[string]struct {
		object object
		want   bool
	}{
		"label and owner":              {object{Labels: label, OwnerReferences: byHost}, true},
		"made before the host arrived": {object{Labels: label}, true},
		"data of an earlier version":   {object{Annotations: delivered, OwnerReferences: byHost}, true},
		"neither label nor owner":      {object{}, false},
		"the label of another host":    {object{Labels: map[string]string{Label: "b"}}, false},
		"an owner without label":       {object{OwnerReferences: byHost}, false},
		"an annotation without owner":  {object{Annotations: delivered}, false},
		"an earlier host of that name": {
			object{Labels: label, OwnerReferences: owner(group, "CapstanHost", "a", "0")}, false,
		},
		"an owner of another kind": {
			object{Labels: label, OwnerReferences: owner(group, "CapstanMachine", "a", "1")}, false,
		},
		"an owner of another group": {
			object{Labels: label, OwnerReferences: owner("example.com/v1", "CapstanHost", "a", "1")}, false,
		},
	} {
		if got := Owns(hostWith("1"), &c.object); got != c.want {
			t.Errorf("%s: the object is the host's: %t, want %t", name, got, c.want)
		}
	}
}

// others returns an object of somebody else under each name that a host needs.
func others() map[string]client.Object {
	account := metav1.ObjectMeta{Namespace: "default", Name: "host-a", UID: "foreign"}
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "default", Name: name, UID: "foreign"}
	}
	return map[string]client.Object{
		"ServiceAccount host-a": &corev1.ServiceAccount{ObjectMeta: account},
		"Role host-a":           &rbacv1.Role{ObjectMeta: account},
		"RoleBinding host-a":    &rbacv1.RoleBinding{ObjectMeta: account},
		"Lease a":               &coordinationv1.Lease{ObjectMeta: named("a")},
		"Secret a-bootstrap":    &corev1.Secret{ObjectMeta: named("a-bootstrap")},
		"Secret a-handover":     &corev1.Secret{ObjectMeta: named("a-handover")},
	}
}

func TestNamesThatOthersHaveAreNotTakenOver(t *testing.T) {
	for what, object := range others() {
		t.Run(what, func(t *testing.T) {
			c := api(t, object)
			before := object.GetResourceVersion()
			err := Ensure(t.Context(), c, c, hostWith("1"), Objects(hostWith("1")))
			taken := Taken(err)
			if taken == nil || taken.Kind+" "+taken.Name != what || !strings.Contains(err.Error(), "delete or rename") {
				t.Fatalf("error %v, want one that names %s and says what to do", err, what)
			}
			if n := count(t, c); n != 1 {
				t.Errorf("%d objects exist, want only that of somebody else", n)
			}
			if err := Remove(t.Context(), c, c, hostWith("1")); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				t.Fatalf("reading the object of somebody else: %v", err)
			}
			if before != "" && object.GetResourceVersion() != before {
				t.Error("the object of somebody else was changed")
			}
		})
	}
}

// TestLeftoversAreReplaced checks that objects of an earlier host of the same name, which a move leaves until garbage
// collection, are deleted and recreated. Objects with an additional owner stay.
func TestLeftoversAreReplaced(t *testing.T) {
	earlier := owner(infrav1.GroupVersion.String(), "CapstanHost", "a", "0")
	for uid := range map[types.UID]bool{"1": true, "": true} {
		var objects []client.Object
		for _, object := range others() {
			object.SetLabels(map[string]string{Label: "a"})
			object.SetOwnerReferences(earlier)
			objects = append(objects, object)
		}
		c := api(t, objects...)
		if err := Ensure(t.Context(), c, c, hostWith(uid), Objects(hostWith(uid))); err != nil {
			t.Fatal(err)
		}
		account := &corev1.ServiceAccount{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "host-a"}, account); err != nil {
			t.Fatal(err)
		}
		if n := count(t, c); n != 4 || account.UID == "foreign" {
			t.Errorf("host %q: %d objects exist, the account is that of the earlier host: %t", uid, n, account.UID == "foreign")
		}
	}
	for name, change := range map[string]func(client.Object){
		"an additional owner": func(o client.Object) {
			o.SetOwnerReferences(append(owner("v1", "ConfigMap", "x", "x"), earlier...))
		},
		"no label": func(o client.Object) { o.SetLabels(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			for what, object := range others() {
				object.SetLabels(map[string]string{Label: "a"})
				object.SetOwnerReferences(earlier)
				change(object)
				c := api(t, object)
				if err := Ensure(t.Context(), c, c, hostWith("1"), Objects(hostWith("1"))); Taken(err) == nil || count(t, c) != 1 {
					t.Errorf("%s was taken over: %v, %d objects", what, err, count(t, c))
				}
			}
		})
	}
}

func TestIdentityIsMadeKeptAndRemoved(t *testing.T) {
	c := api(t)
	expected := hostWith("") // as a mover creates them before a host arrives
	if err := Ensure(t.Context(), c, c, expected, Objects(expected)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := Ensure(t.Context(), c, c, hostWith("1"), Objects(hostWith("1"))); err != nil {
			t.Fatal(err)
		}
	}
	lease := &coordinationv1.Lease{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, lease); err != nil {
		t.Fatal(err)
	}
	if len(lease.OwnerReferences) != 1 || lease.OwnerReferences[0].UID != "1" || count(t, c) != 4 {
		t.Errorf("the Lease has the owners %v, and %d objects exist", lease.OwnerReferences, count(t, c))
	}
	for range 2 { // the second call finds nothing, which is fine
		if err := Remove(t.Context(), c, c, hostWith("1")); err != nil || count(t, c) != 0 {
			t.Errorf("removed with error %v, %d objects are left", err, count(t, c))
		}
	}
}

func count(t *testing.T, c client.Client) (n int) {
	t.Helper()
	for _, list := range []client.ObjectList{
		&corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
		&coordinationv1.LeaseList{}, &corev1.SecretList{},
	} {
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		items, err := runtime.DefaultUnstructuredConverter.ToUnstructured(list)
		if err != nil {
			t.Fatal(err)
		}
		all, _ := items["items"].([]any)
		n += len(all)
	}
	return n
}
