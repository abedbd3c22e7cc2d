package agent

import (
	"context"
	"encoding/pem"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/agent/config"
	"github.com/capstan-dev/capstan/agent/enrolment"
	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/agent/rest"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

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
