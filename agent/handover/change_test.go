package handover

import (
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

// TestAHostThatGoesBeforeTheWatchBegins: a call has shown that the host exists, but the watch shows nothing.
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

// TestAMarkedHostIsLeftWithAReport: the agent leaves only once the source has its report. It can't report there later,
// and without the report the host blocks clusterctl.
func TestAMarkedHostIsLeftWithAReport(t *testing.T) {
	m := newMoved(t, 0, 24*time.Hour)
	m.here.Host.Annotations = map[string]string{leaveMark: ""}
	for _, accepted := range []bool{false, true} {
		m.here.Host.Status.Agent = &v1beta2.AgentReport{HandOver: &v1beta2.HandOverReport{Offer: "uid/1", Accepted: accepted}}
		if changed, _, err := m.pass(t.Context()); changed != accepted || (err == nil) != accepted {
			t.Errorf("changed sides: %t, %v; accepted in the source's report: %t", changed, err, accepted)
		}
	}
}

// TestARefusalCountsAfterAMinuteWithoutABreak: silence, and any other answer, restarts the minute.
func TestARefusalCountsAfterAMinuteWithoutABreak(t *testing.T) {
	watched := answer("shown by the watch")
	cases := map[string]struct {
		answers []answer // a minute passes after each
		moves   bool
	}{
		"refused for a moment":                                   {[]answer{refuses}, false},
		"refused for a minute":                                   {[]answer{refuses, refuses}, true},
		"silent between two refusals":                            {[]answer{refuses, silent, refuses}, false},
		"silent between two refusals, then refused for a minute": {[]answer{refuses, silent, refuses, refuses}, true},
		"present between two refusals":                           {[]answer{refuses, present, refuses}, false},
		"seen by the watch between two refusals":                 {[]answer{refuses, watched, refuses}, false},
		"seen by the watch, then silent, between two refusals":   {[]answer{refuses, watched, silent, refuses}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMoved(t, 0, 24*time.Hour)
			changed := false
			for _, said := range c.answers {
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
