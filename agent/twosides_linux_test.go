package agent

import (
	"encoding/pem"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/agent/internal/testhost"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

const offerPath = "/api/v1/namespaces/default/secrets/h1-handover"

// offer makes an offer of the target to the host: an id of this name, a Secret, and the annotation. change edits the Secret before; nil leaves it.
func (h *host) offer(target *apiServer, name string, change func(map[string][]byte)) (id string) {
	target.mu.Lock()
	token := target.issue(time.Hour)
	target.mu.Unlock()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: target.Certificate().Raw})
	id = string(h.api.host.UID) + "/" + name
	secret := map[string][]byte{
		v1beta2.OfferIDKey: []byte(id), v1beta2.OfferServerKey: []byte(target.URL), v1beta2.OfferCAKey: ca, v1beta2.OfferTokenKey: []byte(token),
	}
	if change != nil {
		change(secret)
	}
	h.api.change(func() {
		h.api.offer = secret
		h.api.host.Annotations = map[string]string{v1beta2.OfferAnnotation: id}
	})
	return id
}

// waitOffer waits until the agent has said something about an offer: that it is accepted, or why not.
func (h *host) waitOffer(t *testing.T, id, refusal string) {
	t.Helper()
	h.api.wait(t, "word about offer "+id+" "+refusal, func(r *v1beta2.AgentReport) bool {
		return r.HandOver != nil && r.HandOver.Offer == id && r.HandOver.Accepted == (refusal == "") && strings.Contains(r.HandOver.Message, refusal)
	})
}

// arrive puts the host into the target as a mover does: the spec without the status, and with the annotations.
func (h *host) arrive(target *apiServer) {
	spec, annotations := *h.api.host.Spec.DeepCopy(), h.api.host.Annotations
	target.change(func() {
		target.host.UID = "uid-there-" + target.host.UID
		target.host.Spec, target.host.Annotations, target.host.Status, target.deleted = spec, annotations, v1beta2.CapstanHostStatus{}, false
	})
}

// leave takes it away from here, with the mark of clusterctl first.
func (h *host) leave(delete bool) {
	h.api.change(func() {
		h.api.host.Annotations = map[string]string{leaveMark: ""}
		h.api.deleted = delete
	})
}

// newTarget is another management cluster, without the host.
func newTarget(t *testing.T) *apiServer {
	target := newAPIServer(t)
	target.deleted = true
	return target
}

// unharmed fails the test if the machine on the host was disturbed or cleaned.
func unharmed(t *testing.T, id string) {
	t.Helper()
	checkMachine(t, id)
	for _, word := range []string{"kubeadm reset", "stop kubelet"} {
		if strings.Contains(content("/var/log/calls"), word) {
			t.Errorf("somebody called %s", word)
		}
	}
	if got := strings.Count(content("/var/log/calls"), "kubeadm init"); got != 1 {
		t.Errorf("kubeadm init ran %d times", got)
	}
}

// waitThere waits until the agent reports to the target that the machine is up.
func waitThere(t *testing.T, target *apiServer, id string) {
	t.Helper()
	target.wait(t, "the agent in the target", func(r *v1beta2.AgentReport) bool {
		return r.BootID != "" && r.Bootstrap != nil && r.Bootstrap.ProviderID == id && r.Bootstrap.Phase == v1beta2.BootstrapSucceeded && r.Cleaning == nil
	})
}

// TestAHostMovesWhereverTheAgentIsKilled moves a host to and fro, and kills the agent at each of its own steps. The machine on the host never notices.
func TestAHostMovesWhereverTheAgentIsKilled(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		h.api.host.UID = "uid"
		agent := h.start(t, "")
		id := h.claimIt(testData)
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		here, there := h.api, newTarget(t)
		for n, point := range []string{"", "offer read", "next written", "changing sides", "changed sides"} {
			stop(t, agent)
			agent = h.start(t, point)
			name := string(rune('a' + n))
			offer := h.offer(there, name, nil)
			if point == "offer read" || point == "next written" {
				killed(t, agent)
				agent = h.start(t, "")
			}
			h.waitOffer(t, offer, "")
			h.arrive(there)
			h.leave(n%2 == 0) // found by the mark alone, too
			if strings.HasSuffix(point, "sides") {
				killed(t, agent)
				h.api.change(func() { h.api.deleted = true })
				agent = h.start(t, "")
			}
			waitThere(t, there, id)
			unharmed(t, id)
			h.api.change(func() { h.api.deleted = true })
			if len(here.denied)+len(there.denied) > 0 {
				t.Errorf("calls that the Role does not allow: %v, %v", here.denied, there.denied)
			}
			h.api, here, there = there, there, here // and on, or back
			if t.Failed() {
				t.Fatalf("at point %q", point)
			}
		}
		if here.strangers+there.strangers > 0 {
			t.Errorf("%d calls had a token of the other management cluster", here.strangers+there.strangers)
		}
		// What the target orders counts: the machine goes, and the host is cleaned.
		h.releaseIt(t, id)
		checkClean(t)
		stop(t, agent)
	})
}

// TestNobodyTakesAHostThatIsNotHis: offers and targets that lie, a source that is silent. The agent stays where it is, and the machine on the host as it is.
func TestNobodyTakesAHostThatIsNotHis(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		h.api.host.UID = "uid"
		agent := h.start(t, "")
		id := h.claimIt(testData)
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		there := newTarget(t)

		// Offers that are none.
		for name, c := range map[string]struct {
			change func(map[string][]byte)
			want   string
		}{
			"of-another-host": {func(s map[string][]byte) { s[v1beta2.OfferIDKey] = []byte("other/1") }, "another offer"},
			"without-https":   {func(s map[string][]byte) { s[v1beta2.OfferServerKey] = []byte("http://10.0.0.1") }, "https"},
			"without-ca":      {func(s map[string][]byte) { s[v1beta2.OfferCAKey] = nil }, "caData"},
			"of-another-ca": {func(s map[string][]byte) {
				s[v1beta2.OfferServerKey] = []byte(strings.Replace(there.URL, "127.0.0.1", "localhost", 1))
			}, "the target"},
			"with-a-bad-token": {func(s map[string][]byte) { s[v1beta2.OfferTokenKey] = []byte("hunter2") }, "401"},
		} {
			h.waitOffer(t, h.offer(there, name, c.change), c.want)
		}
		// Targets that have the host of another machine, or answer what is no API server's answer.
		there.change(func() {
			there.deleted, there.host.Spec.Claim = false, &v1beta2.HostClaim{ProviderID: "capstan://default/h1/99999999", Released: true}
		})
		h.waitOffer(t, h.offer(there, "claimed", nil), "99999999")
		there.change(func() { there.odd = true })
		h.waitOffer(t, h.offer(there, "odd", nil), "not that of an API server")
		there.change(func() { there.odd, there.deleted = false, true })
		if _, err := os.Stat("/var/lib/capstan/next.yaml"); err == nil {
			t.Fatal("an offer was accepted that is none")
		}

		// A good offer, after which the target lies: it has the host, for another machine, and wants it cleaned.
		h.waitOffer(t, h.offer(there, "good", nil), "")
		there.change(func() {
			there.deleted, there.host.Spec.Claim = false, &v1beta2.HostClaim{ProviderID: "capstan://default/h1/99999999", Released: true}
		})
		h.leave(true)
		there.waitLooks(t, 2)
		// The host is on both sides, with the target wanting it cleaned: the source counts.
		h.api.change(func() {
			h.api.deleted, h.api.host.Annotations = false, map[string]string{v1beta2.OfferAnnotation: "uid/good"}
		})
		there.change(func() { there.host.Spec.Claim.ProviderID = id })
		h.waitOffer(t, "uid/good", "")
		// The source is silent.
		h.api.change(func() { h.api.silent = true })
		h.api.CloseClientConnections()
		h.api.waitLooks(t, 2)
		if there.reports > 0 || there.beats > 0 {
			t.Errorf("the target has %d reports and %d heartbeats", there.reports, there.beats)
		}
		unharmed(t, id)
		// The offer is taken back while the agent is away.
		stop(t, agent)
		h.api.change(func() { h.api.silent, h.api.host.Annotations, h.api.offer = false, nil, nil })
		agent = h.start(t, "")
		h.api.wait(t, "the end of the offer", func(r *v1beta2.AgentReport) bool { return r.HandOver == nil })
		if _, err := os.Stat("/var/lib/capstan/next.yaml"); err == nil {
			t.Error("the offer is not forgotten")
		}
		h.leave(true)
		there.change(func() { there.host.Spec.Claim.Released = false })
		stop(t, agent)
		unharmed(t, id)
		if len(h.api.denied)+len(there.denied)+h.api.strangers+there.strangers > 0 {
			t.Errorf("denied: %v, %v; tokens of the other: %d, %d", h.api.denied, there.denied, h.api.strangers, there.strangers)
		}
	})
}

// TestAnExpiredTokenIsOfferedAnew: the agent says that it can't go along any more, takes the next offer, and moves.
func TestAnExpiredTokenIsOfferedAnew(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		h.api.host.UID = "uid"
		agent := h.start(t, "")
		id := h.claimIt(testData)
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		there := newTarget(t)
		first := h.offer(there, "first", nil)
		h.waitOffer(t, first, "")
		stop(t, agent)
		path := filepath.Join("/var/lib/capstan", "next.yaml")
		expired := jwt(time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour), there.URL)
		text := regexp.MustCompile(`(?m)^token: .*$`).ReplaceAllString(content(path), "token: "+expired)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		agent = h.start(t, "")
		h.waitOffer(t, first, "does not accept")
		h.waitOffer(t, h.offer(there, "second", nil), "")
		if strings.Contains(content(path), expired) {
			t.Error("the expired token is kept")
		}
		h.arrive(there)
		h.leave(true)
		waitThere(t, there, id)
		unharmed(t, id)
		stop(t, agent)
	})
}
