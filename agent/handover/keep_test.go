package handover

import (
	"strings"
	"testing"
	"time"
)

// TestATokenIsKeptFresh: the agent renews its token for the target even while the source is silent. Once the agent
// can't follow the offer any more, it no longer reports the offer as accepted.
func TestATokenIsKeptFresh(t *testing.T) {
	const day = 24 * time.Hour
	// Each name begins with the state of the agent's token for the target.
	cases := map[string]struct {
		age, left time.Duration
		here      answer // the source's answer
		there     answer // the target's answer to calls with the token
		first     bool   // accepted in the first report
		refusal   string
		renewed   bool
	}{
		"young":                              {0, day, present, present, true, "", false},
		"young, the source is silent":        {0, day, silent, present, true, "", false},
		"young, the target is silent":        {0, day, present, silent, true, "", false},
		"due":                                {day / 2, day / 2, present, present, false, "", true},
		"due, the source is silent":          {day / 2, day / 2, silent, present, false, "", true},
		"due, the source refuses":            {day / 2, day / 2, refuses, present, false, "", true},
		"due, the host is gone":              {day / 2, day / 2, absent, present, false, "", true},
		"due, the target is silent":          {day / 2, day / 2, present, silent, false, "", false},
		"due, both are silent":               {day / 2, day / 2, silent, silent, false, "", false},
		"due, the target refuses":            {day / 2, day / 2, present, refuses, false, "no longer accepts", false},
		"due, source silent, target refuses": {day / 2, day / 2, silent, refuses, false, "no longer accepts", false},
		"expired":                            {day, -time.Minute, present, refuses, false, "no longer accepts", false},
		"expired, the target is silent":      {day, -time.Minute, present, silent, false, "has expired", false},
		"expired, the source is silent":      {day, -time.Minute, silent, refuses, false, "no longer accepts", false},
		"expired only by the host's clock":   {day, -time.Minute, present, present, false, "", true},
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
			if got.Offer != "uid/1" || got.Accepted != (c.refusal == "") || (got.Message == "") != got.Accepted ||
				!strings.Contains(got.Message, c.refusal) {
				t.Errorf("the report is %+v", got)
			}
			if c.refusal != "" && err == nil {
				t.Error("no error although the agent can't follow the offer")
			}
			next, err := m.Store.Next()
			if err == nil && next == nil { // the agent has changed sides
				next, err = m.Store.Current()
			}
			if err != nil || (next.Token != m.token) != c.renewed || c.renewed && !m.there.Tokens[next.Token] {
				t.Errorf("the enrolment is %+v, %v", next, err)
			}
		})
	}
}

// TestATokenThatCantBeRenewedIsAWait: the source says that the host exists, and there is no watch. The agent waits
// longer each time, and logs what it waits for.
func TestATokenThatCantBeRenewedIsAWait(t *testing.T) {
	for _, said := range []answer{silent, refuses} {
		m := newMoved(t, 12*time.Hour, 12*time.Hour)
		m.there.Silent, m.there.Tokens[m.token] = said == silent, said != refuses
		if changed, _, err := m.pass(t.Context()); changed || err == nil || !strings.Contains(err.Error(), "the target") {
			t.Errorf("the target is %s: changed sides %t, %v", said, changed, err)
		}
	}
}
