package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// story reports to a Recorder what happens to a machine and its host.
type story struct {
	*Recorder
	clock   *clocktesting.FakeClock
	machine *infrav1.CapstanMachine
	host    *infrav1.CapstanHost
}

func newStory(t *testing.T) (*story, *prometheus.Registry) {
	t.Helper()
	registry, clock := prometheus.NewPedanticRegistry(), clocktesting.NewFakeClock(time.Now())
	recorder, err := New(registry, clock)
	if err != nil {
		t.Fatal(err)
	}
	m := &infrav1.CapstanMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m", UID: "m-1"}}
	h := &infrav1.CapstanHost{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "h", UID: "h-1"}}
	h.Spec.Claim = &infrav1.HostClaim{ProviderID: "capstan://default/h/1"}
	return &story{recorder, clock, m, h}, registry
}

// condition sets a condition of the machine.
func (s *story) condition(kind, reason string) {
	before := s.machine.DeepCopy()
	conditions.Set(s.machine, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason})
	s.Machine(before, s.machine, s.host)
}

// phase sets the phase of the host.
func (s *story) phase(phase infrav1.HostPhase) {
	before := s.host.DeepCopy()
	s.host.Status.Phase = phase
	s.Host(before, s.host)
}

// bootstrapped sets the agent's report of a bootstrap that took this long.
func (s *story) bootstrapped(took time.Duration) {
	begun := metav1.NewTime(s.clock.Now())
	s.host.Status.Agent = &infrav1.AgentReport{Bootstrap: &infrav1.BootstrapReport{
		ProviderID: s.host.Spec.Claim.ProviderID, StartTime: begun, CompletionTime: metav1.NewTime(begun.Add(took)),
	}}
}

func TestWhatHappensIsMeasuredOnce(t *testing.T) {
	for name, c := range map[string]struct {
		tell func(s *story)
		want map[string]float64
	}{
		"a machine waits for a host": {func(s *story) {
			s.Wants(s.machine)
			s.NotPlaced([]string{"claimed", "offline"})
			s.clock.Step(7 * time.Second)
			s.Wants(s.machine)
			s.NotPlaced([]string{"claimed"})
			s.clock.Step(3 * time.Second)
			s.condition(infrav1.HostClaimedCondition, infrav1.HostClaimedReason)
			s.condition(infrav1.HostClaimedCondition, infrav1.HostClaimedReason)
		}, map[string]float64{
			ClaimWait + "_count": 1, ClaimWait + "_sum": 10,
			PlacementFailures + `{reason="claimed"}`: 2, PlacementFailures + `{reason="offline"}`: 1,
		}},
		"a machine that this process did not see waiting": {func(s *story) {
			s.condition(infrav1.HostClaimedCondition, infrav1.HostClaimedReason)
		}, nil},
		"another machine of the same name follows a machine that waits": {func(s *story) {
			s.Wants(s.machine)
			s.clock.Step(time.Hour)
			s.machine.UID = "m-2"
			s.Wants(s.machine)
			s.clock.Step(time.Second)
			s.condition(infrav1.HostClaimedCondition, infrav1.HostClaimedReason)
		}, map[string]float64{ClaimWait + "_count": 1, ClaimWait + "_sum": 1}},
		"a machine is deleted while it waits": {func(s *story) {
			s.Wants(s.machine)
			s.MachineGone(types.NamespacedName{Namespace: "default", Name: "m"})
			s.condition(infrav1.HostClaimedCondition, infrav1.HostClaimedReason)
		}, nil},
		"a bootstrap succeeds": {func(s *story) {
			s.bootstrapped(42 * time.Second)
			s.condition(infrav1.BootstrappedCondition, infrav1.BootstrapSucceededReason)
			s.condition(infrav1.BootstrappedCondition, infrav1.BootstrapSucceededReason)
		}, map[string]float64{
			BootstrapDuration + `_count{result="succeeded"}`: 1, BootstrapDuration + `_sum{result="succeeded"}`: 42,
		}},
		"a bootstrap fails, and the host's clock goes back": {func(s *story) {
			s.bootstrapped(-time.Minute)
			s.condition(infrav1.BootstrappedCondition, infrav1.BootstrapFailedReason)
		}, map[string]float64{
			BootstrapDuration + `_count{result="failed"}`: 1, BootstrapDuration + `_sum{result="failed"}`: 0,
		}},
		"the report is about another claim": {func(s *story) {
			s.bootstrapped(time.Second)
			s.host.Spec.Claim.ProviderID = "capstan://default/h/2"
			s.condition(infrav1.BootstrappedCondition, infrav1.BootstrapSucceededReason)
		}, nil},
		"a machine is bootstrapped whose host is gone": {func(s *story) {
			s.host = nil
			s.condition(infrav1.BootstrappedCondition, infrav1.BootstrapSucceededReason)
		}, nil},
		"a host is cleaned": {func(s *story) {
			s.Released(s.host)
			s.clock.Step(5 * time.Second)
			s.phase(infrav1.HostCleaning)
			s.Released(s.host)
			s.clock.Step(6 * time.Second)
			s.Cleaned(s.host)
			s.Cleaned(s.host)
		}, map[string]float64{
			CleaningDuration + `_count{result="succeeded"}`: 1, CleaningDuration + `_sum{result="succeeded"}`: 11,
		}},
		"a host is being cleaned when this process starts": {func(s *story) {
			s.phase(infrav1.HostCleaning)
			s.Released(s.host)
			s.Cleaned(s.host)
		}, nil},
		"a host is quarantined, and cleaned by somebody": {func(s *story) {
			s.Released(s.host)
			s.phase(infrav1.HostCleaning)
			s.clock.Step(2 * time.Second)
			conditions.Set(s.host, metav1.Condition{
				Type: infrav1.CleanCondition, Status: metav1.ConditionFalse, Reason: infrav1.LeftoversFoundReason,
			})
			s.phase(infrav1.HostQuarantined)
			s.phase(infrav1.HostQuarantined)
			s.Released(s.host)
			s.clock.Step(time.Hour)
			s.Cleaned(s.host)
		}, map[string]float64{
			CleaningDuration + `_count{result="failed"}`: 1, CleaningDuration + `_sum{result="failed"}`: 2,
			Quarantines + `{reason="LeftoversFound"}`: 1,
		}},
		"a host is deleted while it is cleaned": {func(s *story) {
			s.Released(s.host)
			s.HostGone(client.ObjectKeyFromObject(s.host))
			s.Cleaned(s.host)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, registry := newStory(t)
			c.tell(s)
			got := values(t, registry)
			for name, want := range c.want {
				if v, there := got[name]; v != want || !there {
					t.Errorf("%s is %g (%t), want %g", name, v, there, want)
				}
			}
			for name, v := range got {
				if _, wanted := c.want[name]; !wanted && v != 0 {
					t.Errorf("%s is %g, want none", name, v)
				}
			}
		})
	}
}

// values returns counters, and the sums and counts of histograms, by name and labels.
func values(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+`="`+l.GetValue()+`"`)
			}
			in := ""
			if len(labels) > 0 {
				in = "{" + strings.Join(labels, ",") + "}"
			}
			if h := m.GetHistogram(); h != nil {
				found[family.GetName()+"_count"+in] = float64(h.GetSampleCount())
				found[family.GetName()+"_sum"+in] = h.GetSampleSum()
				continue
			}
			found[family.GetName()+in] = m.GetCounter().GetValue()
		}
	}
	return found
}

func TestNothingIsMeasuredWithoutARecorder(t *testing.T) {
	var r *Recorder
	r.Wants(&infrav1.CapstanMachine{})
	r.NotPlaced([]string{"claimed"})
	r.Machine(&infrav1.CapstanMachine{}, &infrav1.CapstanMachine{}, nil)
	r.Host(&infrav1.CapstanHost{}, &infrav1.CapstanHost{})
	r.MachineGone(types.NamespacedName{})
	r.Released(&infrav1.CapstanHost{})
	r.Cleaned(&infrav1.CapstanHost{})
	r.HostGone(types.NamespacedName{})
}

func TestMetricsFollowPrometheusConventions(t *testing.T) {
	s, registry := newStory(t)
	s.Wants(s.machine)
	s.NotPlaced([]string{"claimed"})
	s.condition(infrav1.HostClaimedCondition, infrav1.HostClaimedReason)
	s.bootstrapped(time.Second)
	s.condition(infrav1.BootstrappedCondition, infrav1.BootstrapSucceededReason)
	s.Released(s.host)
	s.phase(infrav1.HostQuarantined)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	if n, err := testutil.GatherAndCount(registry); n != 5 || err != nil {
		t.Errorf("%d metrics were checked (%v), want all 5", n, err)
	}
	if _, err := New(registry, s.clock); err == nil {
		t.Error("a second Recorder was registered")
	}
}
