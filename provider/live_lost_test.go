//go:build linux

package provider

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// TestLiveLostThings checks that the controller recreates objects of a host that others destroy, and that what others
// add does not prevent the controller's writes.
func TestLiveLostThings(t *testing.T) {
	l := startLive(t, 0)
	owned := &infrav1.CapstanHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "owned"}, Spec: infrav1.CapstanHostSpec{Zone: "a"},
	}
	l.must(l.admin.Create(t.Context(), owned))
	lease := &coordinationv1.Lease{}
	whole := func() bool {
		return l.get("owned", lease) && intactLease(lease, owned)
	}
	l.until("the host has a Lease", whole)

	t.Run("a Lease that is deleted", func(t *testing.T) {
		before := lease.UID
		l.must(l.admin.Delete(t.Context(), lease))
		l.until("there is another Lease", func() bool { return whole() && lease.UID != before })
	})
	t.Run("a Lease without its owner reference", func(t *testing.T) {
		lease.OwnerReferences = nil
		l.must(l.admin.Update(t.Context(), lease))
		l.until("the Lease is the host's again", whole)
	})
	t.Run("a host whose conditions others have filled", func(t *testing.T) {
		l.until("the status is written", func() bool {
			return l.get("owned", owned) && conditions.Has(owned, infrav1.ReadyCondition)
		})
		now := metav1.NewTime(time.Now().Truncate(time.Second))
		owned.Status.Conditions = nil
		for i := range 32 {
			owned.Status.Conditions = append(owned.Status.Conditions, metav1.Condition{
				Type: fmt.Sprintf("Forged%02d", i), Status: metav1.ConditionTrue, Reason: "Forged", LastTransitionTime: now,
			})
		}
		l.must(l.admin.Status().Update(t.Context(), owned))
		l.until("the controller's own conditions are there", func() bool {
			l.get("owned", owned)
			return conditions.Has(owned, infrav1.ReadyCondition) && conditions.Has(owned, infrav1.HostOnlineCondition) &&
				conditions.Has(owned, infrav1.CleanCondition) && len(owned.Status.Conditions) <= 32
		})
	})
	l.must(l.admin.Delete(t.Context(), owned))
	l.until("host and Lease are gone", func() bool {
		return !l.get("owned", &infrav1.CapstanHost{}) && !l.get("owned", &coordinationv1.Lease{})
	})
}

// intactLease reports whether a Lease has the label of a host and is owned by it.
func intactLease(lease *coordinationv1.Lease, host client.Object) bool {
	return len(lease.Labels) > 0 && len(lease.OwnerReferences) == 1 && lease.OwnerReferences[0].UID == host.GetUID()
}
