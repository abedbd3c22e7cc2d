package enrol

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/enrolment"
	"github.com/capstan-dev/capstan/local/credential"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// limited returns a credential that is valid until one o'clock, with changes.
func limited(change func(*credential.Credential)) *credential.Credential {
	c := &credential.Credential{
		ID:     "id",
		Limits: credential.Limits{Namespace: "default", Uses: 1, Expires: noon.Add(time.Hour)},
	}
	if change != nil {
		change(c)
	}
	return c
}

// enrolled returns a host that enrolled with a key on a machine, with changes.
func enrolled(key, machine string, change func(*infrav1.CapstanHost)) *infrav1.CapstanHost {
	h := &infrav1.CapstanHost{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "rack1"}}
	h.Spec.Zone = "a"
	if key != "" {
		h.Annotations = map[string]string{KeyAnnotation: key, MachineAnnotation: machine}
	}
	if change != nil {
		change(h)
	}
	return h
}

func TestName(t *testing.T) {
	only := limited(func(c *credential.Credential) { c.Name = "rack1" })
	many := limited(func(c *credential.Credential) { c.Name = "rack1-*" })
	for name, c := range map[string]struct {
		credential *credential.Credential
		request    enrolment.Request
		want, fail string
	}{
		"the computer's own name": {limited(nil), enrolment.Request{Hostname: "debian"}, "debian", ""},
		"a chosen name": {
			limited(nil), enrolment.Request{Host: "rack1", Hostname: "debian"}, "rack1", "",
		},
		"the only name that the credential allows": {only, enrolment.Request{Hostname: "debian"}, "rack1", ""},
		"a chosen name that is the only one that the credential allows": {
			only, enrolment.Request{Host: "rack1", Hostname: "debian"}, "rack1", "",
		},
		"a chosen name that the credential does not allow": {
			only, enrolment.Request{Host: "rack2", Hostname: "debian"}, "", "does not allow the name rack2",
		},
		"a name that matches the pattern": {many, enrolment.Request{Hostname: "rack1-07"}, "rack1-07", ""},
		"a name that does not match the pattern": {
			many, enrolment.Request{Hostname: "rack2-07"}, "", "does not allow the name rack2-07",
		},
		"a name that only ends like the pattern": {
			many, enrolment.Request{Hostname: "xrack1-07"}, "", "does not allow the name",
		},
		"no name":           {limited(nil), enrolment.Request{}, "", "choose a name for the host"},
		"a name with a dot": {limited(nil), enrolment.Request{Host: "a.b"}, "", "can't be the name"},
		"a path": {
			limited(nil), enrolment.Request{Host: "../kube-system/x"}, "", "can't be the name",
		},
		"a name of 64 characters": {
			limited(nil), enrolment.Request{Host: strings.Repeat("a", 64)}, "", "can't be the name",
		},
		"the pattern itself as a name": {many, enrolment.Request{Host: "rack1-*"}, "", "can't be the name"},
	} {
		t.Run(name, func(t *testing.T) {
			got, refusal := nameOf(c.credential, c.request)
			if c.fail == "" && (refusal != nil || got != c.want) {
				t.Errorf("got %q, %v, want %q", got, refusal, c.want)
			}
			if c.fail != "" &&
				(refusal == nil || refusal.Reason != enrolment.ReasonName || !strings.Contains(refusal.Message, c.fail)) {
				t.Errorf("got %q, %+v, want %q", got, refusal, c.fail)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	reenroll := limited(func(c *credential.Credential) { c.Reenroll = true })
	spent := limited(func(c *credential.Credential) { c.Used = []credential.Use{{Host: "rack1", Key: "mine"}} })
	claimed := func(released bool) func(*infrav1.CapstanHost) {
		return func(h *infrav1.CapstanHost) { h.Spec.Claim = &infrav1.HostClaim{Machine: "m", Released: released} }
	}
	for name, c := range map[string]struct {
		credential *credential.Credential
		there      *infrav1.CapstanHost
		same       string
		at         time.Time
		want       verdict
		reason     string
	}{
		"a new host": {credential: limited(nil), want: register},
		"the credential has just expired": {
			credential: limited(nil), at: noon.Add(time.Hour), reason: enrolment.ReasonExpired,
		},
		"the credential that this host has used has expired": {credential: spent, there: enrolled("mine", "hw", nil),
			at: noon.Add(2 * time.Hour), reason: enrolment.ReasonExpired},
		"another host has used up the credential": {credential: limited(func(c *credential.Credential) {
			c.Used = []credential.Use{{Host: "rack2", Key: "other"}}
		}), reason: enrolment.ReasonUsedUp},
		"this host has used up the credential": {credential: spent, there: enrolled("mine", "hw", nil), want: again},
		"another host of this name has used up the credential": {credential: limited(func(c *credential.Credential) {
			c.Used = []credential.Use{{Host: "rack1", Key: "other"}}
		}), there: enrolled("other", "hw", nil), reason: enrolment.ReasonUsedUp},
		"this computer used up the credential under another name": {credential: limited(func(c *credential.Credential) {
			c.Used = []credential.Use{{Host: "rack2", Key: "mine"}}
		}), reason: enrolment.ReasonUsedUp},
		"this computer has enrolled as another host": {
			credential: limited(nil), same: "rack2", reason: enrolment.ReasonTaken,
		},
		"this computer has enrolled as this host": {
			credential: limited(nil), there: enrolled("mine", "hw", nil), same: "rack1", want: again,
		},
		"this computer is this host, which a machine uses": {
			credential: limited(nil), there: enrolled("mine", "hw", claimed(false)), want: again,
		},
		"this computer is this host, on other hardware": {
			credential: limited(nil), there: enrolled("mine", "other", nil), want: again,
		},
		"this computer is this host, which is being deleted": {credential: limited(nil), there: enrolled("mine", "hw",
			func(h *infrav1.CapstanHost) { h.DeletionTimestamp = &metav1.Time{Time: noon} },
		), reason: enrolment.ReasonTaken},
		"another computer has this name": {
			credential: limited(nil), there: enrolled("other", "other", nil), reason: enrolment.ReasonTaken,
		},
		"another computer has this name, with the right to reenroll": {
			credential: reenroll, there: enrolled("other", "other", nil), reason: enrolment.ReasonTaken,
		},
		"the same hardware with another key": {
			credential: limited(nil), there: enrolled("other", "hw", nil), reason: enrolment.ReasonTaken,
		},
		"the same hardware with another key and the right to reenroll": {
			credential: reenroll, there: enrolled("other", "hw", nil), want: replace,
		},
		"the right to reenroll, but a machine uses the host": {
			credential: reenroll, there: enrolled("other", "hw", claimed(false)), reason: enrolment.ReasonInUse,
		},
		"the right to reenroll, and the host was released": {
			credential: reenroll, there: enrolled("other", "hw", claimed(true)), want: replace,
		},
		"a machine uses the host, and there is no right to reenroll": {
			credential: limited(nil), there: enrolled("other", "hw", claimed(false)), reason: enrolment.ReasonTaken,
		},
		"a host that was registered by hand": {
			credential: limited(nil), there: enrolled("", "", nil), want: adopt,
		},
		"a host that was registered by hand and has an agent": {
			credential: reenroll, there: enrolled("", "", func(h *infrav1.CapstanHost) {
				h.Status.Agent = &infrav1.AgentReport{Version: "v1"}
			}), reason: enrolment.ReasonTaken,
		},
		"a host that was registered by hand and is claimed": {
			credential: reenroll, there: enrolled("", "", claimed(false)), reason: enrolment.ReasonTaken,
		},
		"a host that was registered by hand and whose claim is released": {
			credential: reenroll, there: enrolled("", "", claimed(true)), reason: enrolment.ReasonTaken,
		},
		"a local host": {credential: reenroll, there: enrolled("", "", func(h *infrav1.CapstanHost) {
			h.Spec.Supplier = infrav1.SupplierDock
		}), reason: enrolment.ReasonTaken},
		"the host is in the credential's zone": {
			credential: limited(func(c *credential.Credential) { c.Zone = "a" }), there: enrolled("mine", "hw", nil),
			want: again,
		},
		"the host is in another zone than the credential's": {
			credential: limited(func(c *credential.Credential) { c.Zone = "b" }), there: enrolled("mine", "hw", nil),
			reason: enrolment.ReasonZone,
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := c.at
			if at.IsZero() {
				at = noon
			}
			got, refusal := decide(
				c.credential,
				claimant{host: "rack1", key: "mine", machine: "hw"},
				c.there,
				c.same,
				at,
			)
			if c.reason == "" && (refusal != nil || got != c.want) {
				t.Errorf("got %d, %v, want %d", got, refusal, c.want)
			}
			if c.reason != "" && (refusal == nil || refusal.Reason != c.reason) {
				t.Errorf("got %d, %+v, want %s", got, refusal, c.reason)
			}
		})
	}
}
