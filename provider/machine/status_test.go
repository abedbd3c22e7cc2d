package machine

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

func TestSetStatus(t *testing.T) {
	host := func(online metav1.ConditionStatus, phase infrav1.BootstrapPhase) *infrav1.CapstanHost {
		h := &infrav1.CapstanHost{ObjectMeta: metav1.ObjectMeta{Name: "host-01"}}
		h.Spec = infrav1.CapstanHostSpec{
			Zone:  "zone-a",
			Claim: &infrav1.HostClaim{ProviderID: "p", Hostname: "demo-abc"},
		}
		if online != "" {
			conditions.Set(
				h,
				metav1.Condition{
					Type:    infrav1.HostOnlineCondition,
					Status:  online,
					Reason:  "Whatever",
					Message: "host says so",
				},
			)
		}
		if phase != "" {
			h.Status.Agent = &infrav1.AgentReport{Address: "10.231.1.1", Bootstrap: &infrav1.BootstrapReport{
				ProviderID: "p", Phase: phase, Step: "runcmd 1/2", Message: "exit code 1",
			}}
		}
		return h
	}
	silent := func(h *infrav1.CapstanHost) *infrav1.CapstanHost {
		conditions.Set(h, metav1.Condition{
			Type: infrav1.HostOnlineCondition, Status: metav1.ConditionFalse, Reason: infrav1.HostOfflineReason,
			Message: "no heartbeat",
		})
		return h
	}
	now := metav1.Now()
	for name, c := range map[string]struct {
		scope    scope
		id       string
		deleting bool

		ready, claimed, bootstrapped string
		online                       string // checked if not empty
		message                      string
		provisioned                  bool
	}{
		"waiting for the owner (IM-41)": {
			scope: scope{obstacle: &step.Obstacle{Reason: infrav1.WaitingForOwnerReason, Message: "no owner"}},
			ready: "False WaitingForOwner", claimed: "False WaitingForOwner", message: "no owner",
		},
		"no host fits": {
			scope: scope{obstacle: &step.Obstacle{Reason: infrav1.NoHostMatchesReason, Message: "0 of 1 host fits"}},
			ready: "False NoHostMatches", claimed: "False NoHostMatches", message: "0 of 1 host fits",
		},
		"the host starts": {
			scope: scope{host: host("", "")}, ready: "False Bootstrapping", claimed: "True HostClaimed",
			bootstrapped: "False Bootstrapping",
			message:      "host host-01 is starting and running the bootstrap data",
		},
		"the host is online and has reported nothing: the same message, so no write": {
			scope: scope{host: host(metav1.ConditionTrue, "")}, ready: "False Bootstrapping", claimed: "True HostClaimed",
			bootstrapped: "False Bootstrapping",
			message:      "host host-01 is starting and running the bootstrap data",
		},
		"the host went silent before the bootstrap ended": {
			scope: scope{host: silent(host("", ""))}, ready: "False Bootstrapping", claimed: "True HostClaimed",
			bootstrapped: "False Bootstrapping", online: "False HostOffline",
		},
		"the bootstrap runs": {
			scope: scope{host: host(metav1.ConditionTrue, infrav1.BootstrapRunning)},
			ready: "False Bootstrapping", claimed: "True HostClaimed", bootstrapped: "False Bootstrapping",
		},
		"the bootstrap failed (IM-50)": {
			scope: scope{host: host(metav1.ConditionTrue, infrav1.BootstrapFailed)},
			ready: "False BootstrapFailed", claimed: "True HostClaimed", bootstrapped: "False BootstrapFailed",
			message: "failed on host host-01 at runcmd 1/2: exit code 1; it is not retried: delete the Machine",
		},
		"provisioned (IM-53)": {
			scope: scope{host: host(metav1.ConditionTrue, infrav1.BootstrapSucceeded), done: true}, id: "p",
			ready: "True Ready", claimed: "True HostClaimed", bootstrapped: "True BootstrapSucceeded", provisioned: true,
		},
		"provisioned, and the report got lost in a move (IM-63)": {
			scope: scope{host: host(metav1.ConditionTrue, ""), done: true}, id: "p",
			ready: "True Ready", claimed: "True HostClaimed", bootstrapped: "True BootstrapSucceeded", provisioned: true,
		},
		"provisioned, and the host went offline (IM-20)": {
			scope: scope{host: host(metav1.ConditionFalse, infrav1.BootstrapSucceeded), done: true}, id: "p",
			ready: "False Whatever", claimed: "True HostClaimed", bootstrapped: "True BootstrapSucceeded",
			message: "host says so", provisioned: true,
		},
		"provisioned, and the agent's report is the only sign of life so far": {
			scope: scope{host: host("", infrav1.BootstrapSucceeded), done: true}, id: "p", online: "True HostOnline",
			ready: "True Ready", claimed: "True HostClaimed", bootstrapped: "True BootstrapSucceeded", provisioned: true,
		},
		"provisioned, and it is not known yet whether the host lives": {
			scope: scope{host: host("", ""), done: true}, id: "p",
			ready: "Unknown HostStarting", claimed: "True HostClaimed", bootstrapped: "True BootstrapSucceeded",
			provisioned: true,
		},
		"the host is gone": {
			scope: scope{lost: "no host has the claim"}, id: "p", ready: "False HostGone", claimed: "False HostGone",
			message: "no host has the claim",
		},
		"being deleted (IM-30)": {
			scope: scope{
				host: host(metav1.ConditionTrue, infrav1.BootstrapSucceeded), waiting: "host host-01 is being cleaned",
			},
			id: "p", deleting: true, ready: "False Deleting", message: "is being cleaned",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &infrav1.CapstanMachine{Spec: infrav1.CapstanMachineSpec{ProviderID: c.id}}
			if c.deleting {
				m.DeletionTimestamp = &now
			}
			c.scope.capstan, c.scope.running = m, true
			setStatus(&c.scope)
			once := m.DeepCopy()
			setStatus(&c.scope)
			if !reflect.DeepEqual(once, m) {
				t.Errorf("setting the status again gives another status:\n%+v\n%+v", once.Status, m.Status)
			}
			got := func(kind string) string {
				condition := conditions.Get(m, kind)
				if condition == nil {
					return ""
				}
				return string(condition.Status) + " " + condition.Reason
			}
			if got(infrav1.ReadyCondition) != c.ready || got(infrav1.HostClaimedCondition) != c.claimed ||
				got(infrav1.BootstrappedCondition) != c.bootstrapped ||
				!strings.Contains(conditions.GetMessage(m, infrav1.ReadyCondition), c.message) ||
				got(infrav1.PausedCondition) != "False NotPaused" {
				t.Errorf("conditions %+v", m.Status.Conditions)
			}
			if c.online != "" && got(infrav1.HostOnlineCondition) != c.online {
				t.Errorf("HostOnline is %s", got(infrav1.HostOnlineCondition))
			}
			if ptr.Deref(m.Status.Initialization.Provisioned, false) != c.provisioned {
				t.Errorf("provisioned is %t", !c.provisioned)
			}
			if c.scope.host != nil && (m.Status.Host != "host-01" || m.Status.FailureDomain != "zone-a") {
				t.Errorf("host %q in %q (IM-55)", m.Status.Host, m.Status.FailureDomain)
			}
		})
	}
	t.Attr("rule", "IM-19 v1beta2")
	t.Attr("rule", "IM-50 v1beta2")
}

// TestProvisionedStays checks that the status of an instance outlives its host (IM-20).
func TestProvisionedStays(t *testing.T) {
	m := &infrav1.CapstanMachine{Spec: infrav1.CapstanMachineSpec{ProviderID: "p"}}
	m.Status = infrav1.CapstanMachineStatus{Host: "host-01", FailureDomain: "zone-a"}
	m.Status.Initialization.Provisioned = ptr.To(true)
	setStatus(&scope{capstan: m, lost: "gone"})
	if !ptr.Deref(m.Status.Initialization.Provisioned, false) || m.Status.Host != "host-01" ||
		m.Status.FailureDomain != "zone-a" {
		t.Errorf("the status lost something: %+v", m.Status)
	}
	t.Attr("rule", "IM-20 v1beta2")
}

// The addresses in the host's spec come after name and internal address, even if they change later. A machine without
// an instance has no addresses.
func TestAddresses(t *testing.T) {
	h := &infrav1.CapstanHost{}
	h.Spec.Claim = &infrav1.HostClaim{ProviderID: "p", Hostname: "demo-abc"}
	h.Status.Agent = &infrav1.AgentReport{Address: "10.231.1.1"}
	s := &scope{capstan: &infrav1.CapstanMachine{}, host: h}
	for _, c := range []struct {
		what, id, agent string
		spec            []infrav1.HostAddress
		want            string
	}{
		{what: "no instance", agent: "10.231.1.1",
			spec: []infrav1.HostAddress{{Type: "ExternalIP", Address: "198.51.100.7"}}},
		{what: "no addresses added", id: "p", agent: "10.231.1.1", want: "Hostname demo-abc, InternalIP 10.231.1.1"},
		{
			what: "all types", id: "p", agent: "10.231.1.1",
			spec: []infrav1.HostAddress{
				{Type: "ExternalIP", Address: "198.51.100.7"}, {Type: "ExternalDNS", Address: "a.example.com"},
				{Type: "InternalDNS", Address: "a.internal"},
			},
			want: "Hostname demo-abc, InternalIP 10.231.1.1, ExternalIP 198.51.100.7, ExternalDNS a.example.com, " +
				"InternalDNS a.internal",
		},
		{
			what: "only one address is left in the spec", id: "p", agent: "10.231.1.1",
			spec: []infrav1.HostAddress{{Type: "InternalDNS", Address: "a.internal"}},
			want: "Hostname demo-abc, InternalIP 10.231.1.1, InternalDNS a.internal",
		},
		{
			what: "the report is lost, so the known addresses stay", id: "p",
			want: "Hostname demo-abc, InternalIP 10.231.1.1, InternalDNS a.internal",
		},
	} {
		s.capstan.Spec.ProviderID, h.Status.Agent.Address, h.Spec.Addresses = c.id, c.agent, c.spec
		setStatus(s)
		var got []string
		for _, a := range s.capstan.Status.Addresses {
			got = append(got, string(a.Type)+" "+a.Address)
		}
		if all := strings.Join(got, ", "); all != c.want {
			t.Errorf("%s: the addresses are %q, want %q", c.what, all, c.want)
		}
		t.Attr("rule", "IM-27 v1beta2")
	}
}
