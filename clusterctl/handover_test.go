package clusterctl

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/handover"
)

// claimed returns a host with a machine, after some changes.
func claimed(changes ...func(*infrav1.CapstanHost)) infrav1.CapstanHost {
	h := infrav1.CapstanHost{}
	h.Name, h.UID, h.Spec.Claim = "a", types.UID("uid"), &infrav1.HostClaim{ProviderID: "p"}
	handover.Mark(&h)
	for _, change := range changes {
		change(&h)
	}
	return h
}

func offered(h *infrav1.CapstanHost) { handover.Offer(h, "uid/1") }

func says(accepted bool, message string) func(*infrav1.CapstanHost) {
	return func(h *infrav1.CapstanHost) {
		h.Status.Agent = &infrav1.AgentReport{
			HandOver: &infrav1.HandOverReport{Offer: "uid/1", Accepted: accepted, Message: message},
		}
	}
}

func vouched(h *infrav1.CapstanHost) {
	h.Annotations[infrav1.HandedOverAnnotation] = "uid"
	handover.Mark(h)
}
func marked(h *infrav1.CapstanHost) {
	h.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
}

// remarked updates the host as the provider does after a report of the agent.
func remarked(h *infrav1.CapstanHost) { handover.Mark(h) }

func free(h *infrav1.CapstanHost) { h.Spec.Claim = nil; handover.Mark(h) }
func dock(h *infrav1.CapstanHost) { h.Spec.Supplier = infrav1.SupplierDock }

// TestWhoGetsAnOffer: claimed hosts get an offer, unless they are local.
func TestWhoGetsAnOffer(t *testing.T) {
	secret := map[string][]byte{
		infrav1.OfferIDKey: []byte("uid/1"), infrav1.OfferTargetKey: []byte("t"), infrav1.OfferServerKey: []byte("s"),
		infrav1.OfferCAKey: []byte("c"),
	}
	for name, c := range map[string]struct {
		host           infrav1.CapstanHost
		target, server string
		wants, stands  bool
	}{
		"a claimed host":                         {host: claimed(), wants: true},
		"a free host":                            {host: claimed(free)},
		"a local host":                           {host: claimed(dock)},
		"somebody vouched for the agent":         {host: claimed(vouched)},
		"an offer that was not accepted yet":     {host: claimed(offered), wants: true},
		"an offer that was accepted":             {host: claimed(offered, says(true, "")), wants: true, stands: true},
		"an offer that the agent could not take": {host: claimed(offered, says(false, "no")), wants: true},
		"an offer that the agent can't take any more": {
			host: claimed(offered, says(true, ""), remarked, says(false, "expired")), wants: true,
		},
		"an offer that the agent can't take any more, and the provider knows": {
			host: claimed(offered, says(true, ""), remarked, says(false, "expired"), remarked), wants: true,
		},
		"an accepted offer for another target":  {host: claimed(offered, says(true, "")), target: "other", wants: true},
		"an accepted offer with another server": {host: claimed(offered, says(true, "")), server: "other", wants: true},
		"an accepted offer, and a mover has marked the host": {
			host: claimed(offered, says(true, ""), marked),
		},
		"a mark from an earlier move": {host: claimed(marked), wants: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := wants(&c.host); got != c.wants {
				t.Errorf("wants returned %t", got)
			}
			target, server := c.target, c.server
			if target == "" {
				target = "t"
			}
			if server == "" {
				server = "s"
			}
			if got := wants(&c.host) && stands(&c.host, secret, target, server, []byte("c")); got != c.stands {
				t.Errorf("stands returned %t", got)
			}
		})
	}
}

func TestWhatAMoveWaitsFor(t *testing.T) {
	for name, c := range map[string]struct {
		host infrav1.CapstanHost
		want string
	}{
		"the agent has not answered": {claimed(offered), "has not answered"},
		"the agent can't accept": {claimed(offered, says(false, "connection refused")),
			"connection refused"},
		"the agent has accepted, the provider has not reacted yet": {claimed(offered, says(true, "")), "is it running"},
		"the agent has accepted, and the hold is lifted":           {claimed(offered, says(true, ""), remarked), ""},
		"the agent no longer accepts, the provider has not reacted yet": {
			claimed(offered, says(true, ""), remarked, says(false, "expired")),
			"expired",
		},
		"the agent no longer accepts": {
			claimed(offered, says(true, ""), remarked, says(false, "expired"), remarked), "expired",
		},
		"somebody has vouched, the provider has not reacted yet": {
			claimed(func(h *infrav1.CapstanHost) { h.Annotations[infrav1.HandedOverAnnotation] = "uid" }), "is it running",
		},
		"a free host":                    {claimed(free), ""},
		"a host that a mover has marked": {claimed(offered, says(true, ""), marked), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(waitsFor([]infrav1.CapstanHost{c.host}), "\n")
			if (got != "") != (c.want != "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestForgotten(t *testing.T) {
	for name, c := range map[string]struct {
		host infrav1.CapstanHost
		want bool
	}{
		"no offers": {claimed(), true},
		"called off, and the agent still holds the offer": {claimed(offered, says(true, ""), handover.CallOff), false},
		"called off, and the agent has no offer":          {claimed(offered, handover.CallOff), true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := forgotten([]infrav1.CapstanHost{c.host}, 0); (err == nil) != c.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestHowAgentsReachTheTarget(t *testing.T) {
	plain := rest.Config{Host: "https://10.0.0.1:6443/", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca")}}
	named, bare := plain, plain
	named.ServerName, bare.CAData = "x", nil
	for name, c := range map[string]struct {
		settings         rest.Config
		how              HandOver
		server, ca, fail string
	}{
		"the server of the kubeconfig": {settings: plain, server: "https://10.0.0.1:6443", ca: "ca"},
		"another server and another authority are given": {
			settings: plain, how: HandOver{Server: "https://plane:7443", CA: []byte("other")}, server: "https://plane:7443",
			ca: "other",
		},
		"the certificate is for another name": {settings: named, fail: "--agent-server"},
		"the certificate is for another name, which is given": {
			settings: named, how: HandOver{Server: "https://x"}, server: "https://x", ca: "ca",
		},
		"there is no certificate authority": {settings: bare, fail: "--agent-ca"},
		"a certificate authority is given": {
			settings: bare, how: HandOver{CA: []byte("given")}, server: "https://10.0.0.1:6443", ca: "given",
		},
		"not https": {settings: plain, how: HandOver{Server: "http://x"}, fail: "agents need the URL"},
	} {
		t.Run(name, func(t *testing.T) {
			server, ca, err := c.how.reach(&c.settings)
			if (err != nil) != (c.fail != "") || err != nil && !strings.Contains(err.Error(), c.fail) {
				t.Fatalf("got %v, want %q", err, c.fail)
			}
			if server != c.server || !bytes.Equal(ca, []byte(c.ca)) {
				t.Errorf("got %s with %q", server, ca)
			}
		})
	}
}
