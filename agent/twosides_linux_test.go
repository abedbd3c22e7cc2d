package agent

import (
	"context"
	"encoding/pem"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/agent/config"
	"github.com/capstan-dev/capstan/agent/enrolment"
	"github.com/capstan-dev/capstan/agent/internal/testhost"
	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/agent/rest"
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

// moved is a handover without the rest of the agent. It has accepted the offer uid/1 with a token that was issued before now and has some life left; its host has arrived in the target, and is in the source still.
type moved struct {
	*handover
	here, there *apiServer
	tokens      map[string]bool // of here
	token       string          // for there
}

func newMoved(t *testing.T, age, left time.Duration) *moved {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	m := &moved{here: newAPIServer(t), there: newAPIServer(t)}
	c, err := config.Parse([]byte(m.here.config(t.TempDir())))
	must(err)
	client, err := rest.New(c, fixedToken(c.Token), "test")
	must(err)
	t.Cleanup(client.Close)
	m.tokens = m.here.tokens
	m.token = jwt(time.Now().Add(-age), time.Now().Add(left), m.there.URL)
	m.there.tokens[m.token] = left > 0
	m.here.host.UID, m.here.host.Annotations = "uid", map[string]string{v1beta2.OfferAnnotation: "uid/1"}
	m.here.host.Spec.Claim = &v1beta2.HostClaim{ProviderID: machine}
	m.there.host.UID, m.there.host.Spec.Claim = "uid-there", m.here.host.Spec.Claim
	j, err := journal.Open(c.JournalDir(), machine)
	must(err)
	must(j.Succeed(""))
	must(j.Close())
	store := enrolment.NewStore(c)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.there.Certificate().Raw})
	must(store.Prepare(enrolment.Enrolment{Offer: "uid/1", Server: m.there.URL, CAData: string(ca), Token: m.token}))
	log := slog.New(slog.DiscardHandler)
	apply := func(context.Context, *v1beta2.AgentReport) error { return nil }
	m.handover = newHandover(&agent{config: c, version: "test", client: client, report: newReporter(apply, log), log: log}, store)
	return m
}

// be makes the source say this; the watch shows nothing of it.
func (m *moved) be(said word) {
	m.here.mu.Lock()
	defer m.here.mu.Unlock()
	m.here.silent, m.here.deleted, m.here.tokens = said == silent, said == absent, m.tokens
	if said == refuses {
		m.here.tokens = nil
	}
}

// says is what the agent reports about the offer.
func (m *moved) says() v1beta2.HandOverReport {
	m.agent.report.mu.Lock()
	defer m.agent.report.mu.Unlock()
	return *m.agent.report.report.HandOver
}

// TestATokenIsKeptFresh: the agent says that it goes along only as long as it can, and keeps able to while the source is silent.
func TestATokenIsKeptFresh(t *testing.T) {
	const day = 24 * time.Hour
	cases := map[string]struct {
		age, left time.Duration
		here      word // what the source says
		there     word // what the target says, to calls with the token
		first     bool // accepted in the first report
		refusal   string
		renewed   bool
	}{
		"young":                               {0, day, present, present, true, "", false},
		"young, the source is silent":         {0, day, silent, present, true, "", false},
		"young, the target is silent":         {0, day, present, silent, true, "", false},
		"due":                                 {day / 2, day / 2, present, present, false, "", true},
		"due, the source is silent":           {day / 2, day / 2, silent, present, false, "", true},
		"due, the source refuses":             {day / 2, day / 2, refuses, present, false, "", true},
		"due, the host is gone":               {day / 2, day / 2, absent, present, false, "", true},
		"due, the target is silent":           {day / 2, day / 2, present, silent, false, "", false},
		"due, both are silent":                {day / 2, day / 2, silent, silent, false, "", false},
		"due, the target refuses":             {day / 2, day / 2, present, refuses, false, "does not accept", false},
		"due, refused, the source is silent":  {day / 2, day / 2, silent, refuses, false, "does not accept", false},
		"expired":                             {day, -time.Minute, present, refuses, false, "does not accept", false},
		"expired, the target is silent":       {day, -time.Minute, present, silent, false, "has expired", false},
		"expired, the source is silent":       {day, -time.Minute, silent, refuses, false, "does not accept", false},
		"expired by the host's clock, not so": {day, -time.Minute, present, present, false, "", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMoved(t, c.age, c.left)
			if first := m.says(); first.Offer != "uid/1" || first.Accepted != c.first || (first.Message == "") != c.first {
				t.Errorf("the first report is %+v", first)
			}
			m.be(c.here)
			if c.here == present {
				m.see(&m.here.host)
			}
			m.there.silent, m.there.tokens[m.token] = c.there == silent, c.there != refuses
			_, _, err := m.pass(t.Context())
			got := m.says()
			if got.Offer != "uid/1" || got.Accepted != (c.refusal == "") || (got.Message == "") != got.Accepted || !strings.Contains(got.Message, c.refusal) {
				t.Errorf("the report is %+v", got)
			}
			if c.refusal != "" && err == nil {
				t.Error("nothing keeps the agent from going along")
			}
			next, err := m.store.Next()
			if err == nil && next == nil { // it has gone
				next, err = m.store.Current()
			}
			if err != nil || (next.Token != m.token) != c.renewed || c.renewed && !m.there.tokens[next.Token] {
				t.Errorf("the enrolment is %+v, %v", next, err)
			}
		})
	}
}

// TestAHostThatGoesBeforeTheWatchBegins: the agent has asked and heard that it is there, and the watch shows nothing.
func TestAHostThatGoesBeforeTheWatchBegins(t *testing.T) {
	m := newMoved(t, 0, 24*time.Hour)
	for _, said := range []word{present, absent} {
		m.be(said)
		changed, again, err := m.pass(t.Context())
		if changed != (said == absent) || !changed && again != time.Second || err != nil {
			t.Errorf("the host is %s: changed sides %t, looks again in %s, %v", said, changed, again, err)
		}
	}
}

// TestATokenThatCantBeRenewedIsAWait: the source says that the host is there, and there is no watch; the agent waits longer each time, and says for what.
func TestATokenThatCantBeRenewedIsAWait(t *testing.T) {
	for _, said := range []word{silent, refuses} {
		m := newMoved(t, 12*time.Hour, 12*time.Hour)
		m.there.silent, m.there.tokens[m.token] = said == silent, said != refuses
		if changed, _, err := m.pass(t.Context()); changed || err == nil || !strings.Contains(err.Error(), "the target") {
			t.Errorf("the target is %s: changed sides %t, %v", said, changed, err)
		}
	}
}

// TestAnOfferIsFollowedWithoutAWatch: what the source says about offers counts; that the host is there does not stand for the watch.
func TestAnOfferIsFollowedWithoutAWatch(t *testing.T) {
	cases := map[string]struct {
		change func(m *moved)
		next   string // the offer that is accepted in the end
	}{
		"the offer stands":         {func(*moved) {}, "uid/1"},
		"the offer was taken back": {func(m *moved) { m.here.change(func() { m.here.host.Annotations = nil }) }, ""},
		"there is another offer":   {func(m *moved) { (&host{api: m.here}).offer(m.there, "2", nil) }, "uid/2"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMoved(t, 0, 24*time.Hour)
			c.change(m)
			for range 2 {
				if changed, _, err := m.pass(t.Context()); changed || err != nil {
					t.Fatalf("changed sides %t, %v", changed, err)
				}
			}
			next, err := m.store.Next()
			if err != nil || m.said != silent {
				t.Fatalf("the watch says %s, %v", m.said, err)
			}
			if c.next == "" {
				if next != nil || m.agent.report.report.HandOver != nil {
					t.Errorf("the next enrolment is %+v, the report %+v", next, m.agent.report.report.HandOver)
				}
				return
			}
			if got := m.says(); next == nil || next.Offer != c.next || got.Offer != c.next || !got.Accepted {
				t.Errorf("the next enrolment is %+v, the report %+v", next, got)
			}
			m.be(absent) // before the watch begins
			if changed, _, err := m.pass(t.Context()); err != nil || !changed {
				t.Errorf("the host is gone: changed sides %t, %v", changed, err)
			}
		})
	}
}

// TestAMarkedHostIsLeftWithAWord: the word of an agent that is gone can't be given later, and without it the host holds the mover.
func TestAMarkedHostIsLeftWithAWord(t *testing.T) {
	m := newMoved(t, 0, 24*time.Hour)
	m.here.host.Annotations = map[string]string{leaveMark: ""}
	for _, accepted := range []bool{false, true} {
		m.here.host.Status.Agent = &v1beta2.AgentReport{HandOver: &v1beta2.HandOverReport{Offer: "uid/1", Accepted: accepted}}
		if changed, _, err := m.pass(t.Context()); changed != accepted || (err == nil) != accepted {
			t.Errorf("changed sides: %t, %v; the source knows: %t", changed, err, accepted)
		}
	}
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

// TestARefusalCountsAfterAMinuteWithoutABreak: silence, and whatever else the source says, begins the minute anew.
func TestARefusalCountsAfterAMinuteWithoutABreak(t *testing.T) {
	watched := word("shown by the watch")
	cases := map[string]struct {
		words []word // with a minute after each
		moves bool
	}{
		"refused for a moment":                       {[]word{refuses}, false},
		"refused for a minute":                       {[]word{refuses, refuses}, true},
		"silent in between":                          {[]word{refuses, silent, refuses}, false},
		"silent in between, then refused for long":   {[]word{refuses, silent, refuses, refuses}, true},
		"there in between":                           {[]word{refuses, present, refuses}, false},
		"seen by the watch in between":               {[]word{refuses, watched, refuses}, false},
		"seen by the watch just before it ended too": {[]word{refuses, watched, silent, refuses}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMoved(t, 0, 24*time.Hour)
			changed := false
			for _, said := range c.words {
				if said == watched {
					m.see(&m.here.host)
				} else {
					m.unsee()
					m.be(said)
					changed, _, _ = m.pass(t.Context())
				}
				if !m.refused.IsZero() {
					m.refused = m.refused.Add(-refusalPatience)
				}
			}
			if changed != c.moves {
				t.Errorf("changed sides: %t", changed)
			}
		})
	}
}

// waitLooks waits until the agent has asked n times more whether the host is there.
func (a *apiServer) waitLooks(t *testing.T, n int) {
	t.Helper()
	a.mu.Lock()
	want := a.looks + n
	a.mu.Unlock()
	limit := time.NewTimer(60 * time.Second)
	defer limit.Stop()
	for {
		a.mu.Lock()
		looks, changed := a.looks, a.looked
		a.mu.Unlock()
		if looks >= want {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			t.Fatalf("the agent asked %d times, want %d", looks, want)
		}
	}
}

// list answers a look at the host.
func (a *apiServer) list(w http.ResponseWriter) {
	a.looks++
	close(a.looked)
	a.looked = make(chan struct{})
	switch {
	case a.silent:
		answer(w, http.StatusServiceUnavailable, "asked to be silent")
	case a.odd:
		_, _ = w.Write([]byte(`{"kind":"Welcome"}`))
	default:
		list := v1beta2.CapstanHostList{}
		list.Kind, list.ResourceVersion = "CapstanHostList", a.host.ResourceVersion
		if !a.deleted {
			list.Items = append(list.Items, *a.host.DeepCopy())
		}
		encode(w, &list)
	}
}
