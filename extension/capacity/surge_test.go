package capacity

import (
	"fmt"
	"testing"
)

func TestSurge(t *testing.T) {
	group := func(zone string, hosts int) Need { return Need{Zone: zone, Hosts: hosts} }
	for name, c := range map[string]struct {
		groups []Need
		atOnce int
		want   string
	}{
		"no groups":                  {nil, 1, "[]"},
		"groups without a surge":     {[]Need{group("", 0)}, 1, "[]"},
		"one at a time: the largest": {[]Need{group("", 1), group("", 3), group("", 2)}, 1, "[[{   3}]]"},
		"two at a time: the two largest": {
			[]Need{group("", 1), group("", 3), group("", 2)}, 2, "[[{   3} {   2}]]",
		},
		"more groups at a time than there are": {[]Need{group("", 1)}, 9, "[[{   1}]]"},
		"zero groups at a time means one":      {[]Need{group("", 1), group("", 1)}, 0, "[[{   1}]]"},
		"the largest of each zone, too": {[]Need{group("a", 3), group("b", 1), group("b", 2)}, 1,
			"[[{a   3}] [{a   3}] [{b   2}]]"},
		"the two largest of each zone, too": {[]Need{group("b", 1), group("a", 1), group("b", 1)}, 2,
			"[[{b   1} {a   1}] [{a   1}] [{b   1} {b   1}]]"},
	} {
		if got := fmt.Sprint(Surge(c.groups, c.atOnce)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestWordsOfAMessage(t *testing.T) {
	words := Words{Subject: "rollout", Remedy: "wait"}
	decision := Decide(free(1), nil, Cluster{Name: "mine", Needs: anywhere(2), Words: words})
	if want := "rollout needs 2 hosts, 1 of 1 is free: add hosts, or wait"; decision.Message != want {
		t.Errorf("%s, want %s", decision.Message, want)
	}
}
