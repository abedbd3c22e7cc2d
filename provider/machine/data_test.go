package machine

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

func TestDataNamed(t *testing.T) { // IM-48
	for name, c := range map[string]struct {
		secret *string
		want   *step.Obstacle
	}{
		"Cluster API has named the Secret": {secret: ptr.To("w1-data")},
		"Cluster API has not named the Secret": {want: &step.Obstacle{
			Reason:  infrav1.WaitingForBootstrapDataReason,
			Message: "the bootstrap provider has not created the bootstrap data of Machine w1 yet", Brief: true,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}
			m.Spec.Bootstrap.DataSecretName = c.secret
			decides(t, (*Reconciler).dataNamed, &scope{machine: m}, c.want)
		})
	}
	t.Attr("rule", "IM-48 v1beta2")
}

func TestReadData(t *testing.T) {
	read := func(t *testing.T, _ *fixture, s *scope, answer step.Answer) {
		if s.data == nil || string(s.data.Value) != "data" || answer.Stopped() {
			t.Errorf("data %v, stopped %t", s.data, answer.Stopped())
		}
	}
	unread := func(t *testing.T, _ *fixture, s *scope, answer step.Answer) {
		if s.data != nil || answer.Stopped() {
			t.Errorf("data %v, stopped %t", s.data, answer.Stopped())
		}
	}
	trial{objects: worldOf(), run: (*Reconciler).readData, check: read, calls: []string{"get Secret"}}.do(t)
	had := machineIs(func(m *infrav1.CapstanMachine) { m.Status.Host = "host-09" })
	for name, edit := range map[string]change{
		"a machine that has a host": claimed("host-01"), "a machine that had a host": had,
	} {
		t.Run(name, trial{objects: worldOf(edit), run: (*Reconciler).readData, check: unread}.do)
	}
}

func TestDataThatIsNotThere(t *testing.T) {
	empty := on("data", func(s *corev1.Secret) { s.Data = nil })
	for name, c := range map[string]struct {
		edit     change
		obstacle string
		err      string
	}{
		"there is no Secret": {
			edit:     func(all map[string]client.Object) { delete(all, "data") },
			obstacle: infrav1.WaitingForBootstrapDataReason, err: "not found",
		},
		"the Secret has no data": {edit: empty, err: "check the bootstrap provider"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, world(c.edit)...)
			s := f.scope()
			_, err := f.readData(t.Context(), s)
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want one with %s, because no event would start the next pass", err, c.err)
			}
			if got := s.obstacle; (got == nil) != (c.obstacle == "") || got != nil && got.Reason != c.obstacle {
				t.Errorf("obstacle %+v", got)
			}
		})
	}
	f := newFixture(t, world()...)
	f.fault = named("get Secret", apierrors.NewForbidden(corev1.Resource("secrets"), "w1-data", errInjected))
	if s := f.scope(); s != nil {
		if _, err := f.readData(t.Context(), s); !apierrors.IsForbidden(err) || s.obstacle != nil {
			t.Errorf("without the right to read Secrets: error %v, obstacle %+v", err, s.obstacle)
		}
	}
}

func TestDataIsReadOnce(t *testing.T) {
	f := newFixture(t, world()...)
	s := f.scope()
	for range 2 {
		if err := f.loadData(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.calls) != 1 {
		t.Errorf("calls %v", f.calls)
	}
}
