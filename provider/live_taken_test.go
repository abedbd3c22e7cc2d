//go:build linux

package provider

import (
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// TestLiveNamesOfOthers registers hosts that need names of other people's objects. Those objects must not be changed or
// deleted, whoever registers and deletes the hosts. A host with free names gets its identity in the meantime.
func TestLiveNamesOfOthers(t *testing.T) {
	l := startLive(t, 0)
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "somebody"}
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}
	data := map[string][]byte{"password": []byte("secret")}
	others := map[string]client.Object{ // by the name of the host
		"account": &corev1.ServiceAccount{ObjectMeta: named("host-account")},
		"role":    &rbacv1.Role{ObjectMeta: named("host-role"), Rules: []rbacv1.PolicyRule{rule}},
		"binding": &rbacv1.RoleBinding{ObjectMeta: named("host-binding"), RoleRef: role},
		"lease":   &coordinationv1.Lease{ObjectMeta: named("lease")},
		"data":    &corev1.Secret{ObjectMeta: named("data-bootstrap"), Data: data},
		"offer":   &corev1.Secret{ObjectMeta: named("offer-handover"), Data: data},
	}
	versions := map[string]string{}
	for name, object := range others {
		l.must(l.admin.Create(t.Context(), object))
		versions[name] = object.GetResourceVersion()
	}
	register := func(name string) *infrav1.CapstanHost {
		host := &infrav1.CapstanHost{ObjectMeta: named(name), Spec: infrav1.CapstanHostSpec{Zone: "zone-a"}}
		l.must(l.admin.Create(t.Context(), host))
		return host
	}
	for name := range others {
		register(name)
	}
	register("free")
	l.until("the host whose names are free has an account", func() bool {
		return l.get("host-free", &corev1.ServiceAccount{})
	})
	for name, object := range others {
		l.until("host "+name+" names the object that is in its way", func() bool {
			host := &infrav1.CapstanHost{}
			l.get(name, host)
			ready := conditions.Get(host, infrav1.ReadyCondition)
			return ready != nil && ready.Reason == infrav1.NameTakenReason && strings.Contains(ready.Message, object.GetName())
		})
		account := &corev1.ServiceAccount{}
		if l.get(infrav1.IdentityPrefix+name, account) && name != "account" {
			t.Errorf("host %s has an account, whose role may read objects of others", name)
		}
	}
	untouched := func(when string) {
		t.Helper()
		for name, object := range others {
			if !l.get(object.GetName(), object) {
				t.Errorf("%s: %T %s was deleted", when, object, object.GetName())
			} else if object.GetResourceVersion() != versions[name] {
				t.Errorf("%s: %T %s was changed: %v", when, object, object.GetName(), object.GetManagedFields())
			}
		}
	}
	untouched("while the hosts are there")

	// Somebody frees the name for one of the hosts.
	l.must(l.admin.Delete(t.Context(), others["data"]))
	delete(others, "data")
	l.until("host data has an account", func() bool { return l.get("host-data", &corev1.ServiceAccount{}) })

	for _, name := range []string{"account", "role", "binding", "lease", "data", "offer", "free"} {
		l.must(l.admin.Delete(t.Context(), &infrav1.CapstanHost{ObjectMeta: named(name)}))
	}
	l.until("the hosts are gone", func() bool {
		list := &infrav1.CapstanHostList{}
		l.must(l.admin.List(t.Context(), list))
		return len(list.Items) == 0
	})
	untouched("after the hosts")
	for _, name := range []string{"host-free", "host-data"} {
		if l.get(name, &corev1.ServiceAccount{}) {
			t.Errorf("account %s of a host that was deleted is left", name)
		}
	}
}
