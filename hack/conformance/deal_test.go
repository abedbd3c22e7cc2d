package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// numbered returns that many names.
func numbered(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(i))
	}
	return names
}

func TestListsAreShort(t *testing.T) {
	for specs, lists := range map[int]int{0: 0, 1: 1, 11: 11, 60: 12, 446: 38} {
		got := split(numbered(specs), 3)
		if len(got) != lists || !slices.Equal(slices.Concat(got...), numbered(specs)) {
			t.Errorf("%d specs are %d lists, want %d: %q", specs, len(got), lists, got)
		}
	}
}

func TestDealRunsEachListOnce(t *testing.T) {
	var mu sync.Mutex
	var ran []string
	running, most := 0, 0
	together := make(chan struct{})
	err := deal(t.Context(), split(numbered(100), 3), 3, time.Now().Add(time.Hour), func(list []string) error {
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
		t.Errorf("%d at a time ran %q: %v", most, ran, err)
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
		"after an error":              {t.Context(), time.Hour, 1, failure},
		"when no time is left":        {t.Context(), least / 2, 0, nil},
		"when the user interrupts it": {ended, time.Hour, 0, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ran := 0
			err := deal(c.ctx, split(numbered(9), 1), 1, time.Now().Add(c.until), func([]string) error {
				ran++
				return failure
			})
			if ran != c.want || !errors.Is(err, c.err) {
				t.Errorf("%d lists ran: %v", ran, err)
			}
		})
	}
}
