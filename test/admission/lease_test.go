//go:build linux

package admission

import (
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestLeases: a host can renew its Lease, but can't give it another owner, add finalizers or make it grow.
func TestLeases(t *testing.T) {
	ns := namespace(t)
	h, user := host(t, ns, "h1")
	agent := as(t, user)
	read := func(t *testing.T) *coordinationv1.Lease {
		lease := &coordinationv1.Lease{}
		must(t, agent.Get(t.Context(), client.ObjectKeyFromObject(h), lease))
		return lease
	}
	long := strings.Repeat("x", 100<<10)
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "gone"}
	for name, change := range map[string]func(*coordinationv1.Lease){
		"an owner that doesn't exist": func(l *coordinationv1.Lease) { l.OwnerReferences = []metav1.OwnerReference{owner} },
		"one more owner":              func(l *coordinationv1.Lease) { l.OwnerReferences = append(l.OwnerReferences, owner) },
		"no owner":                    func(l *coordinationv1.Lease) { l.OwnerReferences = nil },
		"a finalizer":                 func(l *coordinationv1.Lease) { l.Finalizers = []string{"x/y"} },
		"a label":                     func(l *coordinationv1.Lease) { l.Labels["a"] = "b" },
		"no labels":                   func(l *coordinationv1.Lease) { l.Labels = nil },
		"an annotation":               func(l *coordinationv1.Lease) { l.Annotations = map[string]string{"a": long} },
		"another holder":              func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("h2") },
		"a long holder":               func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To(long) },
		"forged managed fields": func(l *coordinationv1.Lease) {
			l.ManagedFields = append(l.ManagedFields, metav1.ManagedFieldsEntry{
				Manager: "x", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "coordination.k8s.io/v1",
				FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:` + long + `":{}}`),
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			lease := read(t)
			change(lease)
			refused(t, agent.Update(t.Context(), lease))
		})
	}
	t.Run("as another field manager", func(t *testing.T) {
		lease := read(t)
		lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
		refused(t, agent.Update(t.Context(), lease, client.FieldOwner("x")), "capstan-agent")
	})
	t.Run("a preferred holder is not stored, or is refused if Leases have that field", func(t *testing.T) {
		lease := read(t)
		lease.Spec.PreferredHolder, lease.Spec.Strategy = ptr.To(long), ptr.To(coordinationv1.OldestEmulationVersion)
		if err := agent.Update(t.Context(), lease); err == nil && lease.Spec.PreferredHolder != nil {
			t.Errorf("the preferred holder is stored")
		}
	})
	t.Run("heartbeats", func(t *testing.T) {
		for range 3 {
			lease := read(t)
			lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = ptr.To("h1"), ptr.To(int32(40))
			lease.Spec.RenewTime, lease.Spec.AcquireTime = ptr.To(metav1.NowMicro()), ptr.To(metav1.NowMicro())
			must(t, agent.Update(t.Context(), lease))
			must(t, agent.Update(t.Context(), lease, client.FieldOwner(agentManager)))
		}
	})
	t.Run("the controller can change metadata", func(t *testing.T) {
		lease := read(t)
		lease.Annotations = map[string]string{"a": "b"}
		must(t, as(t, manager).Update(t.Context(), lease))
	})
}

// TestOtherPeoplesAccounts: an account that is not a host's can be named host-x and hold a Lease x.
func TestOtherPeoplesAccounts(t *testing.T) {
	ns := namespace(t)
	must(t, admin.Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "leases"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			Verbs: []string{"create", "get", "update"},
		}},
	}))
	must(t, admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "leases"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "leases"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: account(ns, "monitor")}},
	}))
	theirs := as(t, account(ns, "monitor"))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "monitor"}}
	must(t, theirs.Create(t.Context(), lease))
	lease.Labels, lease.Finalizers = map[string]string{"a": "b"}, []string{"x/y"}
	lease.Spec.HolderIdentity = ptr.To("pod-0")
	must(t, theirs.Update(t.Context(), lease, client.FieldOwner("monitor")))
}
