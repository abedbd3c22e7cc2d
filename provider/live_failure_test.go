//go:build linux

package provider

import (
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// TestLiveRefusedRight removes the right to Secrets from the controller's role. The machine must report this with one
// write, and continue on its own once the right is back.
func TestLiveRefusedRight(t *testing.T) {
	l := startLive(t, 1)
	l.cluster()
	rules := l.withoutSecrets()
	l.written()
	l.create(member("w1", false)...)
	m := &infrav1.CapstanMachine{}
	l.until("the machine says what is refused", func() bool {
		l.get("w1", m)
		return conditions.GetReason(m, infrav1.ReconciledCondition) == infrav1.AccessDeniedReason
	})
	for _, kind := range []string{infrav1.ReconciledCondition, infrav1.ReadyCondition, infrav1.HostClaimedCondition} {
		c := conditions.Get(m, kind)
		if c == nil || c.Reason != infrav1.AccessDeniedReason ||
			!strings.Contains(c.Message, `cannot get resource "secrets"`) ||
			!strings.Contains(c.Message, "grant the controller this right") {
			t.Errorf("%s is %+v", kind, c)
		}
	}
	t.Log(conditions.GetMessage(m, infrav1.ReadyCondition))
	host := &infrav1.CapstanHost{}
	if l.get("host-01", host); host.Spec.Claim != nil {
		t.Error("a host is claimed for data that can't be read")
	}
	quiet := time.NewTimer(5 * time.Second) // more attempts follow, and none of them writes
	defer quiet.Stop()
	<-quiet.C
	if got := l.written()["PATCH capstanmachines/status"]; got != 1 {
		t.Errorf("the status was written %d times, want once", got)
	}

	l.setRules(rules)
	l.ready("w1")
	l.get("w1", m)
	if conditions.Has(m, infrav1.ReconciledCondition) {
		t.Errorf("once the right is back, the conditions are %+v", m.Status.Conditions)
	}
}

// withoutSecrets removes the rights to Secrets from the manager's role, and returns the previous rules.
func (l *live) withoutSecrets() []rbacv1.PolicyRule {
	l.Helper()
	before := l.role().Rules
	less := slices.DeleteFunc(slices.Clone(before), func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Resources, "secrets")
	})
	if len(less) == len(before) {
		l.Fatal("no rule is about Secrets")
	}
	l.setRules(less)
	return before
}

func (l *live) role() *rbacv1.ClusterRole {
	l.Helper()
	binding, role := &rbacv1.ClusterRoleBinding{}, &rbacv1.ClusterRole{}
	l.must(l.admin.Get(l.Context(), types.NamespacedName{Name: "capstan-manager"}, binding))
	l.must(l.admin.Get(l.Context(), types.NamespacedName{Name: binding.RoleRef.Name}, role))
	return role
}

func (l *live) setRules(rules []rbacv1.PolicyRule) {
	l.Helper()
	role := l.role()
	role.Rules = rules
	l.must(l.admin.Update(l.Context(), role))
}
