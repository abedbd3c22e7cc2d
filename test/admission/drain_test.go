//go:build linux

package admission

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// TestDrain: the manager deletes the Machine of a host that is to be drained, so a user who requests a drain must have
// the right to release claims. A user who may only write hosts can keep machines away from a host, but can't remove a
// machine from it.
func TestDrain(t *testing.T) {
	ns := namespace(t)
	bind(t, ns, "capstan-inventory", "operator")
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: ns + "-writes-hosts"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"capstanhosts"},
			Verbs: []string{"create", "get", "update"},
		}},
	}
	must(t, admin.Create(t.Context(), role))
	bind(t, ns, role.Name, "writer")
	for name, c := range map[string]struct {
		before, change func(*infrav1.CapstanHostSpec)
		writer         bool // may make the change
	}{
		"cordon":            {change: func(s *infrav1.CapstanHostSpec) { s.Unschedulable = true }, writer: true},
		"drain":             {change: func(s *infrav1.CapstanHostSpec) { s.Drain = true }},
		"begin maintenance": {change: func(s *infrav1.CapstanHostSpec) { s.Maintenance = "disks" }},
		"end a drain": {
			before: func(s *infrav1.CapstanHostSpec) { s.Drain = true },
			change: func(s *infrav1.CapstanHostSpec) { s.Drain = false },
		},
		"end maintenance": {
			before: func(s *infrav1.CapstanHostSpec) { s.Maintenance = "disks" },
			change: func(s *infrav1.CapstanHostSpec) { s.Maintenance = "" },
		},
		"cordon a drained host": {
			before: func(s *infrav1.CapstanHostSpec) { s.Drain = true },
			change: func(s *infrav1.CapstanHostSpec) { s.Unschedulable = true }, writer: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for user, may := range map[string]bool{"operator": true, "writer": c.writer} {
				h := &infrav1.CapstanHost{
					ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "h-"},
					Spec:       infrav1.CapstanHostSpec{Zone: "a"},
				}
				if c.before != nil {
					c.before(&h.Spec)
				}
				must(t, admin.Create(t.Context(), h))
				c.change(&h.Spec)
				if err := as(t, user).Update(t.Context(), h); may && err != nil {
					t.Errorf("user %s is refused: %v", user, err)
				} else if !may {
					refused(t, err)
				}
			}
		})
	}
	drained := &infrav1.CapstanHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "drained"},
		Spec:       infrav1.CapstanHostSpec{Zone: "a", Drain: true},
	}
	refused(t, as(t, "writer").Create(t.Context(), drained.DeepCopy()))
	if err := as(t, "operator").Create(t.Context(), drained); err != nil {
		t.Errorf("the operator may not create a drained host: %v", err)
	}
}
