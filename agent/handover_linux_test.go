package agent

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/capstan-dev/capstan/agent/internal/testapi"
	"github.com/capstan-dev/capstan/agent/internal/testhost"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// waitOffer waits until the agent has reported that it accepts an offer or, if refusal is not empty, that it refuses
// the offer for this reason.
func (h *host) waitOffer(t *testing.T, id, refusal string) {
	t.Helper()
	h.api.Wait(t, "the response to offer "+id+" "+refusal, func(r *v1beta2.AgentReport) bool {
		return r.HandOver != nil && r.HandOver.Offer == id && r.HandOver.Accepted == (refusal == "") &&
			strings.Contains(r.HandOver.Message, refusal)
	})
}

// arrive puts the host into the target as a mover does: with the spec and the annotations, but without the status.
func (h *host) arrive(target *testapi.Server) {
	spec, annotations := *h.api.Host.Spec.DeepCopy(), h.api.Host.Annotations
	target.Change(func() {
		target.Host.UID = "uid-there-" + target.Host.UID
		target.Host.Spec, target.Host.Annotations, target.Host.Status, target.Deleted =
			spec, annotations, v1beta2.CapstanHostStatus{}, false
	})
}

// leave sets clusterctl's mark on the host, and removes the host from the source if delete is true.
func (h *host) leave(delete bool) {
	h.api.Change(func() {
		h.api.Host.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
		h.api.Deleted = delete
	})
}

// newTarget returns another management cluster, without the host.
func newTarget(t *testing.T) *testapi.Server {
	target := testapi.New(t)
	target.Deleted = true
	return target
}

// unharmed fails the test if the machine on the host was disturbed or cleaned.
func unharmed(t *testing.T, id string) {
	t.Helper()
	checkMachine(t, id)
	for _, word := range []string{"kubeadm reset", "stop kubelet"} {
		if strings.Contains(content("/var/log/calls"), word) {
			t.Errorf("%s was called", word)
		}
	}
	if got := strings.Count(content("/var/log/calls"), "kubeadm init"); got != 1 {
		t.Errorf("kubeadm init ran %d times", got)
	}
}

// waitThere waits until the agent reports to the target that the machine is up.
func waitThere(t *testing.T, target *testapi.Server, id string) {
	t.Helper()
	target.Wait(t, "the report to the target", func(r *v1beta2.AgentReport) bool {
		return r.BootID != "" && r.Bootstrap != nil && r.Bootstrap.ProviderID == id &&
			r.Bootstrap.Phase == v1beta2.BootstrapSucceeded && r.Cleaning == nil
	})
}

// TestAHostMovesWhereverTheAgentIsKilled moves a host back and forth, and kills the agent at each of its own steps. The
// machine on the host never notices.
func TestAHostMovesWhereverTheAgentIsKilled(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		h.api.Host.UID = "uid"
		agent := h.start(t, "")
		id := h.claimIt(testData)
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		here, there := h.api, newTarget(t)
		for n, point := range []string{"", "offer read", "next written", "changing sides", "changed sides"} {
			stop(t, agent)
			agent = h.start(t, point)
			name := string(rune('a' + n))
			offer := h.api.MakeOffer(there, name, nil)
			if point == "offer read" || point == "next written" {
				killed(t, agent)
				agent = h.start(t, "")
			}
			h.waitOffer(t, offer, "")
			h.arrive(there)
			h.leave(n%2 == 0) // every other time, only the mark shows that the host leaves
			if strings.HasSuffix(point, "sides") {
				killed(t, agent)
				h.api.Change(func() { h.api.Deleted = true })
				agent = h.start(t, "")
			}
			waitThere(t, there, id)
			unharmed(t, id)
			h.api.Change(func() { h.api.Deleted = true })
			if len(here.Denied)+len(there.Denied) > 0 {
				t.Errorf("calls that the Role does not allow: %v, %v", here.Denied, there.Denied)
			}
			h.api, here, there = there, there, here // onward, or back
			if t.Failed() {
				t.Fatalf("failed after the agent was killed at point %q", point)
			}
		}
		if here.Strangers+there.Strangers > 0 {
			t.Errorf("%d calls had a token of the other management cluster", here.Strangers+there.Strangers)
		}
		// Now the agent follows the target: it removes the machine and cleans the host.
		h.releaseIt(t, id)
		checkClean(t)
		stop(t, agent)
	})
}

// TestNobodyTakesAHostThatIsNotHis: offers and targets lie, and the source is silent. The agent stays with the source,
// and leaves the machine on the host alone.
func TestNobodyTakesAHostThatIsNotHis(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		h.api.Host.UID = "uid"
		agent := h.start(t, "")
		id := h.claimIt(testData)
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		there := newTarget(t)

		// Invalid offers.
		for name, c := range map[string]struct {
			change func(map[string][]byte)
			want   string
		}{
			"of-another-host": {func(s map[string][]byte) { s[v1beta2.OfferIDKey] = []byte("other/1") }, "different offers"},
			"without-https":   {func(s map[string][]byte) { s[v1beta2.OfferServerKey] = []byte("http://10.0.0.1") }, "https"},
			"without-ca":      {func(s map[string][]byte) { s[v1beta2.OfferCAKey] = nil }, "caData"},
			"of-another-ca": {func(s map[string][]byte) {
				s[v1beta2.OfferServerKey] = []byte(strings.Replace(there.URL, "127.0.0.1", "localhost", 1))
			}, "the target"},
			"with-a-bad-token": {func(s map[string][]byte) { s[v1beta2.OfferTokenKey] = []byte("hunter2") }, "401"},
		} {
			h.waitOffer(t, h.api.MakeOffer(there, name, c.change), c.want)
		}
		// Targets whose host has another machine, and targets that don't answer like an API server.
		there.Change(func() {
			there.Deleted, there.Host.Spec.Claim = false, &v1beta2.HostClaim{
				ProviderID: "capstan://default/h1/99999999", Released: true,
			}
		})
		h.waitOffer(t, h.api.MakeOffer(there, "claimed", nil), "99999999")
		there.Change(func() { there.Odd = true })
		h.waitOffer(t, h.api.MakeOffer(there, "odd", nil), "not that of an API server")
		there.Change(func() { there.Odd, there.Deleted = false, true })
		if _, err := os.Stat("/var/lib/capstan/next.yaml"); err == nil {
			t.Fatal("an invalid offer was accepted")
		}

		// A valid offer. Then the target lies: it claims the host for another machine, and wants the host cleaned.
		h.waitOffer(t, h.api.MakeOffer(there, "good", nil), "")
		there.Change(func() {
			there.Deleted, there.Host.Spec.Claim = false, &v1beta2.HostClaim{
				ProviderID: "capstan://default/h1/99999999", Released: true,
			}
		})
		h.leave(true)
		there.WaitLooks(t, 2)
		// Both sides have the host, and the target wants it cleaned: the source decides.
		h.api.Change(func() {
			h.api.Deleted, h.api.Host.Annotations = false, map[string]string{v1beta2.OfferAnnotation: "uid/good"}
		})
		there.Change(func() { there.Host.Spec.Claim.ProviderID = id })
		h.waitOffer(t, "uid/good", "")
		// The source is silent.
		h.api.Change(func() { h.api.Silent = true })
		h.api.CloseClientConnections()
		h.api.WaitLooks(t, 2)
		if there.Reports > 0 || there.Beats > 0 {
			t.Errorf("the target has %d reports and %d heartbeats", there.Reports, there.Beats)
		}
		unharmed(t, id)
		// The offer is withdrawn while the agent is away.
		stop(t, agent)
		h.api.Change(func() { h.api.Silent, h.api.Host.Annotations, h.api.Offer = false, nil, nil })
		agent = h.start(t, "")
		h.api.Wait(t, "a report without the offer", func(r *v1beta2.AgentReport) bool { return r.HandOver == nil })
		if _, err := os.Stat("/var/lib/capstan/next.yaml"); err == nil {
			t.Error("the agent has kept the withdrawn offer")
		}
		h.leave(true)
		there.Change(func() { there.Host.Spec.Claim.Released = false })
		stop(t, agent)
		unharmed(t, id)
		if len(h.api.Denied)+len(there.Denied)+h.api.Strangers+there.Strangers > 0 {
			t.Errorf("denied: %v, %v; calls with a token of the other management cluster: %d, %d",
				h.api.Denied, there.Denied, h.api.Strangers, there.Strangers)
		}
	})
}

// TestAnExpiredTokenIsOfferedAnew: the agent reports that it can't follow any more, accepts the next offer, and moves.
func TestAnExpiredTokenIsOfferedAnew(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		h.api.Host.UID = "uid"
		agent := h.start(t, "")
		id := h.claimIt(testData)
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		there := newTarget(t)
		first := h.api.MakeOffer(there, "first", nil)
		h.waitOffer(t, first, "")
		stop(t, agent)
		path := filepath.Join("/var/lib/capstan", "next.yaml")
		expired := testapi.Token(time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour), there.URL)
		text := regexp.MustCompile(`(?m)^token: .*$`).ReplaceAllString(content(path), "token: "+expired)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		agent = h.start(t, "")
		h.waitOffer(t, first, "no longer accepts")
		h.waitOffer(t, h.api.MakeOffer(there, "second", nil), "")
		if strings.Contains(content(path), expired) {
			t.Error("the agent has kept the expired token")
		}
		h.arrive(there)
		h.leave(true)
		waitThere(t, there, id)
		unharmed(t, id)
		stop(t, agent)
	})
}
