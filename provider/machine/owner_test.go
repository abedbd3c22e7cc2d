package machine

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

func TestOwner(t *testing.T) {
	forget := func(_ *fixture, s *scope) { s.machine, s.owned = nil, false }
	for name, c := range map[string]struct {
		edit         change
		found, owned bool
		calls        []string
	}{
		"a Machine": {found: true, owned: true, calls: []string{"get Machine"}},
		"a Machine that is gone, or not in the cache yet": {
			edit: func(all map[string]client.Object) { delete(all, "owner") }, owned: true, calls: []string{"get Machine"},
		},
		"no owner reference": {edit: machineIs(func(m *infrav1.CapstanMachine) { m.OwnerReferences = nil })},
	} {
		t.Run(name, func(t *testing.T) {
			edits := []change{}
			if c.edit != nil {
				edits = append(edits, c.edit)
			}
			trial{
				objects: worldOf(edits...), with: forget, run: (*Reconciler).owner, calls: c.calls,
				check: func(t *testing.T, _ *fixture, s *scope, answer step.Answer) {
					if (s.machine != nil) != c.found || s.owned != c.owned || answer.Stopped() {
						t.Errorf("found %v, owned %t, stopped %t", s.machine, s.owned, answer.Stopped())
					}
				},
			}.do(t)
		})
	}
}

func TestHasMachineOwner(t *testing.T) {
	for name, c := range map[string]struct {
		version, kind string
		want          bool
	}{
		"a Machine":                       {clusterv1.GroupVersion.String(), "Machine", true},
		"a Machine of an earlier version": {"cluster.x-k8s.io/v1beta1", "Machine", true},
		"another kind":                    {clusterv1.GroupVersion.String(), "MachineSet", false},
		"a Machine of another group":      {"example.com/v1", "Machine", false},
		"a version that can't be read":    {"a/b/c", "Machine", false},
	} {
		t.Run(name, func(t *testing.T) {
			m := &infrav1.CapstanMachine{}
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: c.version, Kind: c.kind, Name: "x"}}
			if got := hasMachineOwner(m); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestOwned(t *testing.T) { // IM-41
	for name, c := range map[string]struct {
		scope scope
		want  *step.Obstacle
	}{
		"a Machine owns the object": {scope: scope{machine: &clusterv1.Machine{}}},
		"no Machine owns the object": {want: &step.Obstacle{
			Reason: infrav1.WaitingForOwnerReason, Message: "no Machine owns this object yet", Brief: true,
		}},
	} {
		t.Run(name, func(t *testing.T) { decides(t, (*Reconciler).owned, &c.scope, c.want) })
	}
	t.Attr("rule", "IM-41 v1beta2")
}
