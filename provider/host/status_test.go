package host

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

func TestSetStatus(t *testing.T) {
	claimed := func(edits ...func(*infrav1.HostClaim)) *infrav1.HostClaim {
		c := &infrav1.HostClaim{Machine: "m", ProviderID: "p"}
		for _, e := range edits {
			e(c)
		}
		return c
	}
	inEpoch := func(n int64) *infrav1.AgentReport { return &infrav1.AgentReport{Epoch: &n} }
	released := func(c *infrav1.HostClaim) { c.Released = true }
	bootstrap := func(phase infrav1.BootstrapPhase) *infrav1.AgentReport {
		return &infrav1.AgentReport{Bootstrap: &infrav1.BootstrapReport{ProviderID: "p", Phase: phase}}
	}
	cleaning := func(done bool, left ...string) *infrav1.AgentReport {
		return &infrav1.AgentReport{Cleaning: &infrav1.CleaningReport{ProviderID: "p", Done: done, Leftovers: left}}
	}
	compare := func(c *infrav1.HostClaim) { c.Proof, c.Baseline = infrav1.ProofCompare, strings.Repeat("a", 64) }
	compared := func(digest string) *infrav1.AgentReport {
		r := cleaning(true)
		r.Cleaning.Baseline = digest
		return r
	}
	carrying := func(r *infrav1.CleaningReport) *infrav1.AgentReport {
		return &infrav1.AgentReport{Epoch: new(int64), Carries: "p", Cleaning: r}
	}
	now := metav1.Now()
	for name, c := range map[string]struct {
		supplier string
		claim    *infrav1.HostClaim
		agent    *infrav1.AgentReport
		before   string // reason of HostOnline
		deleting bool
		epoch    int64
		facts    facts

		phase                infrav1.HostPhase
		ready, online, clean string // status and reason
		message              string // part of Ready's
	}{
		"a supplied host that nobody claims is off, and ready to be claimed": {
			supplier: "dock", agent: &infrav1.AgentReport{Address: "10.231.1.1"},
			phase: infrav1.HostOff, ready: "True Ready", online: "False HostOff", clean: "True Clean",
		},
		"a supplied host that is claimed": {
			supplier: "dock", claim: claimed(), before: infrav1.HostOffReason,
			phase: infrav1.HostClaimed, ready: "False HostStarting", online: "False HostStarting", clean: "False InUse",
		},
		"a supplied host that can't be powered on": {
			supplier: "dock", claim: claimed(),
			facts: facts{obstacle: &step.Obstacle{Reason: infrav1.HostStartingReason, Message: "no space left"}},
			phase: infrav1.HostClaimed, ready: "False HostStarting", online: "False HostStarting", clean: "False InUse",
			message: "no space left",
		},
		"a supplied host without its supplier is not ready": {
			supplier: "dock", facts: facts{obstacle: &step.Obstacle{Reason: infrav1.SupplierMissingReason, Message: "no dock"}},
			phase: infrav1.HostOff, ready: "False SupplierMissing", online: "False HostOff", clean: "True Clean",
			message: "no dock",
		},
		"an owned host that was compared with another baseline": {
			claim: claimed(released, compare), agent: compared(strings.Repeat("b", 64)), facts: facts{live: alive},
			phase: infrav1.HostQuarantined, ready: "False NotCompared", online: "True HostOnline", clean: "False NotCompared",
			message: "infrastructure.capstan.dev/accept=p",
		},
		"an owned host that was compared with the baseline of its claim": {
			claim: claimed(released, compare), agent: compared(strings.Repeat("a", 64)), facts: facts{live: alive},
			phase: infrav1.HostCleaning, ready: "False Cleaning", online: "True HostOnline", clean: "False Cleaning",
		},
		"an owned host that must be reinstalled": {
			claim: claimed(released, func(c *infrav1.HostClaim) { c.Proof = infrav1.ProofReimage }), agent: cleaning(true),
			facts: facts{live: alive},
			phase: infrav1.HostQuarantined, ready: "False ReimageNeeded", online: "True HostOnline",
			clean:   "False ReimageNeeded",
			message: "reinstall and enroll the host, then confirm",
		},
		"an owned host whose agent has never reported": {
			phase: infrav1.HostEnrolling, ready: "False HostStarting", online: "False HostStarting", clean: "True Clean",
		},
		"an owned host that sends heartbeats": {
			agent: inEpoch(0), facts: facts{live: alive},
			phase: infrav1.HostAvailable, ready: "True Ready", online: "True HostOnline", clean: "True Clean",
		},
		"an owned host that sends heartbeats but has not reported": {
			facts: facts{live: alive}, phase: infrav1.HostEnrolling,
			ready: "False HostStarting", online: "True HostOnline", clean: "True Clean",
		},
		"an agent that has come back with a machine of an earlier claim": {
			agent: carrying(&infrav1.CleaningReport{ProviderID: "p"}), facts: facts{live: alive}, message: "is cleaning up",
			phase: infrav1.HostCleaning, ready: "False CarriesMachine", online: "True HostOnline", clean: "False CarriesMachine",
		},
		"an agent that can't clean up after a machine of an earlier claim": {
			agent: carrying(&infrav1.CleaningReport{ProviderID: "p", Done: true, Leftovers: []string{"mount /x"}}),
			facts: facts{live: alive}, message: "infrastructure.capstan.dev/accept=p", phase: infrav1.HostQuarantined,
			ready: "False LeftoversFound", online: "True HostOnline", clean: "False LeftoversFound",
		},
		"an agent that has cleaned up after a machine other than the one on its host": {
			agent: carrying(&infrav1.CleaningReport{ProviderID: "q", Done: true, Leftovers: []string{"mount /x"}}),
			facts: facts{live: silent}, phase: infrav1.HostCleaning,
			ready: "False CarriesMachine", online: "False HostOffline", clean: "False CarriesMachine",
		},
		"an agent that does not know epochs": {
			agent: &infrav1.AgentReport{}, facts: facts{live: alive}, message: "update capstan-agent",
			phase: infrav1.HostEnrolling, ready: "False AgentOutdated", online: "True HostOnline", clean: "True Clean",
		},
		"an agent with a token of an earlier epoch": {
			epoch: 3, agent: inEpoch(2), facts: facts{live: alive}, message: "to epoch 2 instead of 3",
			phase: infrav1.HostEnrolling, ready: "False TokenOutdated", online: "True HostOnline", clean: "True Clean",
		},
		"an agent that reports a later epoch than the present one": {
			epoch: 3, agent: inEpoch(4), facts: facts{live: alive},
			phase: infrav1.HostEnrolling, ready: "False TokenOutdated", online: "True HostOnline", clean: "True Clean",
		},
		"an agent with a token of the present epoch": {
			epoch: 3, agent: inEpoch(3), facts: facts{live: alive},
			phase: infrav1.HostAvailable, ready: "True Ready", online: "True HostOnline", clean: "True Clean",
		},
		"an owned host that is silent": {
			facts: facts{live: silent}, phase: infrav1.HostOffline, ready: "False HostOffline", online: "False HostOffline",
			clean:   "True Clean",
			message: "check the host",
		},
		"the condition from before the controller started stays: online": {
			agent: inEpoch(0), before: infrav1.HostOnlineReason,
			phase: infrav1.HostAvailable, ready: "True Ready", online: "True HostOnline", clean: "True Clean",
		},
		"the condition from before the controller started stays: offline": {
			before: infrav1.HostOfflineReason, phase: infrav1.HostOffline, ready: "False HostOffline",
			online: "False HostOffline", clean: "True Clean",
		},
		"a claimed host that is online": {
			claim: claimed(), agent: &infrav1.AgentReport{}, facts: facts{live: alive},
			phase: infrav1.HostClaimed, ready: "False HostStarting", online: "True HostOnline", clean: "False InUse",
		},
		"a report about an earlier claim doesn't count": {
			claim: claimed(func(c *infrav1.HostClaim) { c.ProviderID = "q" }), agent: bootstrap(infrav1.BootstrapSucceeded),
			facts: facts{live: alive},
			phase: infrav1.HostClaimed, ready: "False HostStarting", online: "True HostOnline", clean: "False InUse",
		},
		"the bootstrap runs": {
			claim: claimed(), agent: bootstrap(infrav1.BootstrapRunning), facts: facts{live: alive},
			phase: infrav1.HostBootstrapping, ready: "False Bootstrapping", online: "True HostOnline", clean: "False InUse",
		},
		"the bootstrap failed": {
			claim: claimed(), agent: bootstrap(infrav1.BootstrapFailed), facts: facts{live: alive},
			phase: infrav1.HostBootstrapping, ready: "False BootstrapFailed", online: "True HostOnline", clean: "False InUse",
		},
		"a host in use": {
			claim: claimed(), agent: bootstrap(infrav1.BootstrapSucceeded), facts: facts{live: alive},
			phase: infrav1.HostInUse, ready: "True InUse", online: "True HostOnline", clean: "False InUse", message: "machine m",
		},
		"a host in use whose agent must be updated": {
			claim: claimed(), agent: bootstrap(infrav1.BootstrapSucceeded), facts: facts{live: alive},
			message: "update capstan-agent",
			phase:   infrav1.HostInUse, ready: "True InUse", online: "True HostOnline", clean: "False InUse",
		},
		"a host in use that is silent": {
			claim: claimed(), agent: bootstrap(infrav1.BootstrapSucceeded), facts: facts{live: silent},
			phase: infrav1.HostOffline, ready: "False HostOffline", online: "False HostOffline", clean: "False InUse",
		},
		"a host in use by a machine that doesn't exist": {
			claim: claimed(), agent: bootstrap(infrav1.BootstrapSucceeded), facts: facts{live: alive, orphaned: true},
			phase: infrav1.HostInUse, ready: "False MachineGone", online: "True HostOnline", clean: "False InUse",
			message: "spec.claim.released",
		},
		"a released host": {
			claim: claimed(released), agent: bootstrap(infrav1.BootstrapSucceeded), facts: facts{live: alive},
			phase: infrav1.HostCleaning, ready: "False Cleaning", online: "True HostOnline", clean: "False Cleaning",
		},
		"a released host that is silent": {
			claim: claimed(released), facts: facts{live: silent},
			phase: infrav1.HostCleaning, ready: "False Cleaning", online: "False HostOffline", clean: "False Cleaning",
		},
		"cleaning found something and goes on": {
			claim: claimed(released), agent: cleaning(false, "mount /x"), facts: facts{live: alive},
			phase: infrav1.HostCleaning, ready: "False Cleaning", online: "True HostOnline", clean: "False Cleaning",
		},
		"cleaning ended and left something": {
			claim: claimed(released), agent: cleaning(true, "mount /x", "process 8 kubelet"), facts: facts{live: alive},
			phase: infrav1.HostQuarantined, ready: "False LeftoversFound", online: "True HostOnline",
			clean:   "False LeftoversFound",
			message: "mount /x, process 8 kubelet",
		},
		"cleaning left more than the message lists": {
			claim: claimed(released), agent: cleaning(true, "a", "b", "c", "d", "e", "f", "g"), facts: facts{live: alive},
			phase: infrav1.HostQuarantined, ready: "False LeftoversFound", online: "True HostOnline",
			clean:   "False LeftoversFound",
			message: "a, b, c, d, e and 2 more",
		},
		"a host in use that is being deleted": {
			claim: claimed(), agent: bootstrap(infrav1.BootstrapSucceeded), facts: facts{live: alive}, deleting: true,
			phase: infrav1.HostInUse, ready: "False Deleting", online: "True HostOnline", clean: "False InUse",
			message: "deleted after that machine",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := &infrav1.CapstanHost{Spec: infrav1.CapstanHostSpec{Supplier: c.supplier, Claim: c.claim, Epoch: c.epoch}}
			h.Status.Agent = c.agent
			if c.deleting {
				h.DeletionTimestamp = &now
			}
			if c.before != "" {
				status := metav1.ConditionFalse
				if c.before == infrav1.HostOnlineReason {
					status = metav1.ConditionTrue
				}
				conditions.Set(h, metav1.Condition{Type: infrav1.HostOnlineCondition, Status: status, Reason: c.before})
			}
			c.facts.timeout = 40 * time.Second
			setStatus(h, c.facts)
			once := h.DeepCopy()
			setStatus(h, c.facts)
			if !reflect.DeepEqual(once, h) {
				t.Errorf("setting the status again gives another status:\n%+v\n%+v", once.Status, h.Status)
			}
			got := func(kind string) string {
				condition := conditions.Get(h, kind)
				return string(condition.Status) + " " + condition.Reason
			}
			if h.Status.Phase != c.phase || got(infrav1.ReadyCondition) != c.ready ||
				got(infrav1.HostOnlineCondition) != c.online ||
				got(infrav1.CleanCondition) != c.clean || !strings.Contains(conditions.Get(h, infrav1.ReadyCondition).Message,
				c.message) {
				t.Errorf("phase %s, conditions %+v", h.Status.Phase, h.Status.Conditions)
			}
			if h.Status.Phase == infrav1.HostOff && h.Status.Agent != nil {
				t.Error("the report of the agent is still there, although the host is off")
			}
		})
	}
}

func TestVersions(t *testing.T) {
	many := slices.Repeat([]string{"v1.36.3"}, 70)
	for name, c := range map[string]struct {
		agent    *infrav1.AgentReport
		supplier []string
		want     []string
	}{
		"nobody reports versions":                        {},
		"the supplier's versions for a host that is off": {supplier: []string{"v1.36.3"}, want: []string{"v1.36.3"}},
		"the agent's versions count more than the supplier's": {
			agent: &infrav1.AgentReport{KubernetesVersions: []string{"v1.35.4"}}, supplier: []string{"v1.36.3"},
			want: []string{"v1.35.4"},
		},
		"an agent that reports no versions": {
			agent: &infrav1.AgentReport{}, supplier: []string{"v1.36.3"}, want: []string{"v1.36.3"},
		},
		"no more versions than the API accepts": {supplier: many, want: many[:64]},
	} {
		t.Run(name, func(t *testing.T) {
			h := &infrav1.CapstanHost{Status: infrav1.CapstanHostStatus{Agent: c.agent}}
			if got := versions(h, facts{versions: c.supplier}); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
