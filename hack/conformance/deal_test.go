package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/test/verdicts"
)

// numbered returns n different names.
func numbered(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(i))
	}
	return names
}

// none reports that no spec is slow.
func none(string) bool { return false }

func TestListsAreShort(t *testing.T) {
	for specs, lists := range map[int]int{0: 0, 1: 1, 11: 11, 60: 12, 446: 38} {
		got := split(numbered(specs), 3, none)
		if len(got) != lists || !slices.Equal(slices.Concat(got...), numbered(specs)) {
			t.Errorf("%d specs are divided into %d lists, want %d: %q", specs, len(got), lists, got)
		}
	}
}

// TestSlowSpecsComeFirst: a list with several slow specs would keep one worker busy long after the others.
func TestSlowSpecsComeFirst(t *testing.T) {
	specs := numbered(30)
	got := split(specs, 3, func(name string) bool { return name == "7" || name == "8" })
	want := [][]string{{"7"}, {"8"}, {"0", "1"}, {"2", "3"}, {"4", "5"}, {"6", "9"}}
	if len(got) != 16 || !slices.EqualFunc(got[:6], want, slices.Equal) {
		t.Errorf("the lists are %q, want 16 that begin with %q", got, want)
	}
	if !slices.Equal(specs, numbered(30)) {
		t.Errorf("split changed the specs: %q", specs)
	}
}

// TestNeighboursAreApart: no two neighbours of many specs get into one list. No spec is lost, and the caller's specs
// keep their order.
func TestNeighboursAreApart(t *testing.T) {
	for _, n := range []int{0, 1, 12, 13, 60, 417} {
		specs := numbered(n)
		got := apart(specs)
		if !slices.Equal(specs, numbered(n)) {
			t.Errorf("apart changed the %d specs: %q", n, specs)
		}
		back := slices.SortedFunc(slices.Values(got), func(a, b string) int {
			return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
		})
		if !slices.Equal(back, specs) {
			t.Errorf("%d specs became %q", n, got)
		}
	}
	for _, list := range split(apart(numbered(417)), 4, none) {
		for i, name := range list[1:] {
			a, _ := strconv.Atoi(list[i])
			if b, _ := strconv.Atoi(name); b == a+1 {
				t.Errorf("%d and %d are in one list: %q", a, b, list)
			}
		}
	}
}

// TestASlowSpecHasALimit: a spec that waits forever must not keep a run from its end, and has a verdict.
func TestASlowSpecHasALimit(t *testing.T) {
	now := time.Now()
	late, soon := now.Add(time.Hour), now.Add(time.Minute)
	slow := func(name string) bool { return name == "slow" }
	for name, c := range map[string]struct {
		list       []string
		until, end time.Time
	}{
		"slow":            {[]string{"slow"}, late, now.Add(maxSlow)},
		"slow at the end": {[]string{"slow"}, soon, soon},
		"another":         {[]string{"a"}, late, late},
		"several":         {[]string{"slow", "a"}, late, late},
	} {
		if got := limit(c.list, slow, now, c.until); !got.Equal(c.end) {
			t.Errorf("%s: the limit is %s from now, want %s", name, got.Sub(now), c.end.Sub(now))
		}
	}

	passed := []verdicts.Verdict{{Name: "slow", Outcome: verdicts.Passed}}
	suite := []verdicts.Verdict{{Name: "[AfterSuite]", Outcome: verdicts.Passed}}
	end := now.Add(maxSlow)
	for name, c := range map[string]struct {
		got        []verdicts.Verdict
		now, until time.Time
		want       verdicts.Outcome
	}{
		"it ended":          {passed, end.Add(time.Second), late, verdicts.Passed},
		"it did not end":    {nil, end.Add(time.Second), late, verdicts.Failed},
		"another verdict":   {suite, end.Add(time.Second), late, verdicts.Failed},
		"it broke before":   {nil, end.Add(-time.Second), late, ""},
		"the run ended too": {nil, end.Add(time.Second), end, ""},
	} {
		var outcome verdicts.Outcome
		if got := overdue([]string{"slow"}, c.got, c.now, end, c.until); len(got) > 0 {
			outcome = got[len(got)-1].Outcome
		}
		if outcome != c.want {
			t.Errorf("%s: the verdict is %q, want %q", name, outcome, c.want)
		}
	}
}

func TestDealRunsEachListOnce(t *testing.T) {
	var mu sync.Mutex
	var ran []string
	running, most := 0, 0
	together := make(chan struct{})
	err := deal(t.Context(), split(numbered(100), 3, none), 3, time.Now().Add(time.Hour), func(list []string) error {
		mu.Lock()
		running++
		most = max(most, running)
		if running == 3 && len(ran) == 0 {
			close(together)
		}
		mu.Unlock()
		<-together // all workers have a list
		mu.Lock()
		defer mu.Unlock()
		running--
		ran = append(ran, list...)
		return nil
	})
	slices.Sort(ran)
	want := numbered(100)
	slices.Sort(want)
	if err != nil || !slices.Equal(ran, want) || most != 3 {
		t.Errorf("at most %d lists ran at a time, and the specs %q ran: error %v", most, ran, err)
	}
}

func TestDealStops(t *testing.T) {
	failure := errors.New("the suite crashed")
	ended, end := context.WithCancel(t.Context())
	end()
	cases := map[string]struct {
		ctx   context.Context
		until time.Duration
		want  int
		err   error
	}{
		"a list fails":                {t.Context(), time.Hour, 1, failure},
		"no time is left":             {t.Context(), least / 2, 0, nil},
		"the user interrupts the run": {ended, time.Hour, 0, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ran := 0
			err := deal(c.ctx, split(numbered(9), 1, none), 1, time.Now().Add(c.until), func([]string) error {
				ran++
				return failure
			})
			if ran != c.want || !errors.Is(err, c.err) {
				t.Errorf("%d lists ran, error %v", ran, err)
			}
		})
	}
}
