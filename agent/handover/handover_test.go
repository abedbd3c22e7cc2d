package handover

import (
	"context"
	"encoding/pem"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/agent/config"
	"github.com/capstan-dev/capstan/agent/internal/testapi"
	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/agent/report"
	"github.com/capstan-dev/capstan/agent/rest"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// moved is a Follower without the rest of the agent. It has accepted the offer uid/1 with a token that was issued before now and has some life
// left; its host has arrived in the target, and is in the source still.
type moved struct {
	*Follower
	here, there *testapi.Server
	tokens      map[string]bool // of here
	token       string          // for there
}

func newMoved(t *testing.T, age, left time.Duration) *moved {
	t.Helper()
	m := &moved{here: testapi.New(t), there: testapi.New(t)}
	c, err := config.Parse([]byte(m.here.AgentConfig(t.TempDir())))
	must(t, err)
	client, err := rest.New(c, fixedToken(c.Token), "test")
	must(t, err)
	t.Cleanup(client.Close)
	m.tokens = m.here.Tokens
	m.token = testapi.Token(time.Now().Add(-age), time.Now().Add(left), m.there.URL)
	m.there.Tokens[m.token] = left > 0
	m.here.Host.UID, m.here.Host.Annotations = "uid", map[string]string{v1beta2.OfferAnnotation: "uid/1"}
	m.here.Host.Spec.Claim = &v1beta2.HostClaim{ProviderID: machine}
	m.there.Host.UID, m.there.Host.Spec.Claim = "uid-there", m.here.Host.Spec.Claim
	j, err := journal.Open(c.JournalDir(), machine)
	must(t, err)
	must(t, j.Succeed(""))
	must(t, j.Close())
	store := NewStore(c)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.there.Certificate().Raw})
	must(t, store.Prepare(Enrolment{Offer: "uid/1", Server: m.there.URL, CAData: string(ca), Token: m.token}))
	log := slog.New(slog.DiscardHandler)
	apply := func(context.Context, *v1beta2.AgentReport) error { return nil }
	m.Follower = New(Options{Config: c, Version: "test", Store: store, Source: client, Report: report.New(apply, log), Log: log})
	return m
}

// be makes the source say this; the watch shows nothing of it.
func (m *moved) be(said answer) {
	m.here.Mu.Lock()
	defer m.here.Mu.Unlock()
	m.here.Silent, m.here.Deleted, m.here.Tokens = said == silent, said == absent, m.tokens
	if said == refuses {
		m.here.Tokens = nil
	}
}

// says is what the agent reports about the offer.
func (m *moved) says() v1beta2.HandOverReport {
	return *m.Report.Get().HandOver
}

// TestATokenIsKeptFresh: the agent says that it goes along only as long as it can, and keeps able to while the source is silent.
func TestATokenIsKeptFresh(t *testing.T) {
	const day = 24 * time.Hour
	cases := map[string]struct {
		age, left time.Duration
		here      answer // what the source says
		there     answer // what the target says, to calls with the token
		first     bool   // accepted in the first report
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
				m.See(&m.here.Host)
			}
			m.there.Silent, m.there.Tokens[m.token] = c.there == silent, c.there != refuses
			_, _, err := m.pass(t.Context())
			got := m.says()
			if got.Offer != "uid/1" || got.Accepted != (c.refusal == "") || (got.Message == "") != got.Accepted || !strings.Contains(got.Message, c.refusal) {
				t.Errorf("the report is %+v", got)
			}
			if c.refusal != "" && err == nil {
				t.Error("nothing keeps the agent from going along")
			}
			next, err := m.Store.Next()
			if err == nil && next == nil { // it has gone
				next, err = m.Store.Current()
			}
			if err != nil || (next.Token != m.token) != c.renewed || c.renewed && !m.there.Tokens[next.Token] {
				t.Errorf("the enrolment is %+v, %v", next, err)
			}
		})
	}
}

// TestAHostThatGoesBeforeTheWatchBegins: the agent has asked and heard that it is there, and the watch shows nothing.
func TestAHostThatGoesBeforeTheWatchBegins(t *testing.T) {
	m := newMoved(t, 0, 24*time.Hour)
	for _, said := range []answer{present, absent} {
		m.be(said)
		changed, again, err := m.pass(t.Context())
		if changed != (said == absent) || !changed && again != time.Second || err != nil {
			t.Errorf("the host is %s: changed sides %t, looks again in %s, %v", said, changed, again, err)
		}
	}
}

// TestATokenThatCantBeRenewedIsAWait: the source says that the host is there, and there is no watch; the agent waits longer each time, and says for what.
func TestATokenThatCantBeRenewedIsAWait(t *testing.T) {
	for _, said := range []answer{silent, refuses} {
		m := newMoved(t, 12*time.Hour, 12*time.Hour)
		m.there.Silent, m.there.Tokens[m.token] = said == silent, said != refuses
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
		"the offer was called off": {func(m *moved) { m.here.Change(func() { m.here.Host.Annotations = nil }) }, ""},
		"there is another offer":   {func(m *moved) { m.here.MakeOffer(m.there, "2", nil) }, "uid/2"},
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
			next, err := m.Store.Next()
			if err != nil || m.said != silent {
				t.Fatalf("the watch says %s, %v", m.said, err)
			}
			if c.next == "" {
				if next != nil || m.Report.Get().HandOver != nil {
					t.Errorf("the next enrolment is %+v, the report %+v", next, m.Report.Get().HandOver)
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

// TestAMarkedHostIsLeftWithAWord: the answer of an agent that is gone can't be given later, and without it the host holds the mover.
func TestAMarkedHostIsLeftWithAWord(t *testing.T) {
	m := newMoved(t, 0, 24*time.Hour)
	m.here.Host.Annotations = map[string]string{leaveMark: ""}
	for _, accepted := range []bool{false, true} {
		m.here.Host.Status.Agent = &v1beta2.AgentReport{HandOver: &v1beta2.HandOverReport{Offer: "uid/1", Accepted: accepted}}
		if changed, _, err := m.pass(t.Context()); changed != accepted || (err == nil) != accepted {
			t.Errorf("changed sides: %t, %v; the source knows: %t", changed, err, accepted)
		}
	}
}

// TestARefusalCountsAfterAMinuteWithoutABreak: silence, and whatever else the source says, begins the minute anew.
func TestARefusalCountsAfterAMinuteWithoutABreak(t *testing.T) {
	watched := answer("shown by the watch")
	cases := map[string]struct {
		words []answer // with a minute after each
		moves bool
	}{
		"refused for a moment":                       {[]answer{refuses}, false},
		"refused for a minute":                       {[]answer{refuses, refuses}, true},
		"silent in between":                          {[]answer{refuses, silent, refuses}, false},
		"silent in between, then refused for long":   {[]answer{refuses, silent, refuses, refuses}, true},
		"there in between":                           {[]answer{refuses, present, refuses}, false},
		"seen by the watch in between":               {[]answer{refuses, watched, refuses}, false},
		"seen by the watch just before it ended too": {[]answer{refuses, watched, silent, refuses}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMoved(t, 0, 24*time.Hour)
			changed := false
			for _, said := range c.words {
				if said == watched {
					m.See(&m.here.Host)
				} else {
					m.Unsee()
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
