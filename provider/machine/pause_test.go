package machine

import (
	"testing"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

func TestPause(t *testing.T) { // IM-64
	noOwner := func(s *scope) { s.machine = nil }
	for name, c := range map[string]struct {
		edit            change
		with            func(*scope)
		paused, cluster bool
		calls           []string
	}{
		"nothing is paused":             {cluster: true, calls: []string{"get Cluster"}},
		"the Cluster is found by label": {with: noOwner, cluster: true, calls: []string{"get Cluster"}},
		"the Cluster is paused": {
			edit:   on("cluster", func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) }),
			paused: true, cluster: true, calls: []string{"get Cluster"},
		},
		"the object is paused": {
			edit: machineIs(func(m *infrav1.CapstanMachine) {
				m.Annotations = map[string]string{clusterv1.PausedAnnotation: "false"}
			}),
			paused: true, cluster: true, calls: []string{"get Cluster"},
		},
		"there is no Cluster": {
			edit: func(all map[string]client.Object) { delete(all, "cluster") }, calls: []string{"get Cluster"},
		},
		"no Cluster is named": {
			edit: machineIs(func(m *infrav1.CapstanMachine) { m.Labels = nil }), with: noOwner,
		},
	} {
		t.Run(name, func(t *testing.T) {
			edits := []change{}
			if c.edit != nil {
				edits = append(edits, c.edit)
			}
			trial{
				objects: worldOf(edits...), run: (*Reconciler).pause, calls: c.calls,
				with: func(_ *fixture, s *scope) {
					s.owningCluster, s.running = nil, false
					if c.with != nil {
						c.with(s)
					}
				},
				check: func(t *testing.T, _ *fixture, s *scope, answer step.Answer) {
					found := s.owningCluster != nil
					if (s.paused != "") != c.paused || answer.Stopped() != c.paused || s.running == c.paused || found != c.cluster {
						t.Errorf("paused %q, running %t, stopped %t, Cluster %v", s.paused, s.running, answer.Stopped(), s.owningCluster)
					}
				},
			}.do(t)
		})
	}
}
