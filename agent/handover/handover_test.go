package handover

import (
	"context"
	"encoding/pem"
	"log/slog"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/agent/config"
	"github.com/capstan-dev/capstan/agent/internal/testapi"
	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/agent/report"
	"github.com/capstan-dev/capstan/agent/rest"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// moved is a Follower without the rest of the agent. It has accepted the offer uid/1 with a token that was issued some
// time ago and is still valid. Its host has arrived in the target, and still exists in the source.
type moved struct {
	*Follower
	here, there *testapi.Server
	tokens      map[string]bool // the tokens that the source accepts
	token       string          // the agent's token for the target
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
	m.Follower = New(Options{
		Config: c, Version: "test", Store: store, Source: client, Report: report.New(apply, log), Log: log,
	})
	return m
}

// be sets the source's answer, without showing it to the watch.
func (m *moved) be(said answer) {
	m.here.Mu.Lock()
	defer m.here.Mu.Unlock()
	m.here.Silent, m.here.Deleted, m.here.Tokens = said == silent, said == absent, m.tokens
	if said == refuses {
		m.here.Tokens = nil
	}
}

// says returns what the agent reports about the offer.
func (m *moved) says() v1beta2.HandOverReport {
	return *m.Report.Get().HandOver
}

// TestAnOfferNamesTheEnrolmentServer: the agent accepts an enrolment server only if it is on the same host as the
// target's API server, which the offer's id identifies.
func TestAnOfferNamesTheEnrolmentServer(t *testing.T) {
	for enrolment, want := range map[string]bool{
		"": true, "https://127.0.0.1:7444": true, "https://127.0.0.2:7444": false, "http://127.0.0.1:7444": false,
		"https://localhost:7444": false,
	} {
		t.Run(enrolment, func(t *testing.T) {
			m := newMoved(t, 0, 24*time.Hour)
			m.here.MakeOffer(m.there, "2", func(secret map[string][]byte) {
				secret[v1beta2.OfferEnrolmentKey] = []byte(enrolment)
			})
			for range 2 {
				if changed, _, err := m.pass(t.Context()); changed || (err == nil) != want {
					t.Fatalf("changed sides %t, %v", changed, err)
				}
			}
			next, err := m.Store.Next()
			must(t, err)
			if got := m.says(); got.Accepted != want {
				t.Fatalf("the report is %+v, want accepted %t", got, want)
			}
			if want && (next == nil || next.Offer != "uid/2" || m.Store.Config(next).Enrolment != enrolment) {
				t.Errorf("the next enrolment is %+v", next)
			}
			if !want && next != nil && next.Offer == "uid/2" {
				t.Errorf("the next enrolment is %+v", next)
			}
		})
	}
}

// TestAnOfferIsFollowedWithoutAWatch: the agent acts on an offer in the answer to a call, but does not conclude that
// the watch works.
func TestAnOfferIsFollowedWithoutAWatch(t *testing.T) {
	cases := map[string]struct {
		change func(m *moved)
		next   string // the offer accepted at the end
	}{
		"the offer has not changed": {func(*moved) {}, "uid/1"},
		"the offer was called off":  {func(m *moved) { m.here.Change(func() { m.here.Host.Annotations = nil }) }, ""},
		"there is another offer":    {func(m *moved) { m.here.MakeOffer(m.there, "2", nil) }, "uid/2"},
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
				t.Errorf("after the host is gone: changed sides %t, %v", changed, err)
			}
		})
	}
}
