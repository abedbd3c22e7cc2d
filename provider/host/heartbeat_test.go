package host

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestHeartbeats(t *testing.T) {
	start := time.Now()
	// The times that hosts write may be unrelated to our clock.
	renewal := func(n int) *metav1.MicroTime {
		if n == 0 {
			return nil
		}
		return &metav1.MicroTime{Time: time.Date(1999, 1, n, 0, 0, 0, 0, time.UTC)}
	}
	type beatAt struct {
		second  int
		renewal int
		news    bool
	}
	for name, c := range map[string]struct {
		beats []beatAt
		at    int
		want  liveness
		left  int
	}{
		"a host that was never seen is unseen": {at: 5, want: unseen, left: 40},
		"a lease that was never renewed is unseen for a while": {
			beats: []beatAt{{0, 0, false}}, at: 39, want: unseen, left: 1,
		},
		"a lease that was never renewed is silent after the timeout": {
			beats: []beatAt{{0, 0, false}}, at: 40, want: silent,
		},
		"the first renewal is a heartbeat": {
			beats: []beatAt{{0, 0, false}, {3, 1, true}}, at: 10, want: alive, left: 33,
		},
		"the renewal that a new process finds is not a heartbeat": {
			beats: []beatAt{{0, 5, false}}, at: 10, want: unseen, left: 30,
		},
		"the next renewal is a heartbeat": {
			beats: []beatAt{{0, 5, false}, {9, 6, true}}, at: 10, want: alive, left: 39,
		},
		"a second heartbeat does not make the host alive again": {
			beats: []beatAt{{0, 0, false}, {3, 1, true}, {13, 2, false}}, at: 50, want: alive, left: 3,
		},
		"a renew time that repeats the last one is not a heartbeat": {
			beats: []beatAt{{0, 0, false}, {3, 1, true}, {30, 1, false}}, at: 43, want: silent,
		},
		"a host that was silent becomes alive again": {
			beats: []beatAt{{0, 0, false}, {3, 1, true}, {60, 2, true}}, at: 61, want: alive, left: 39,
		},
		"a host whose clock goes back is still alive": {
			beats: []beatAt{{0, 9, false}, {3, 2, true}}, at: 10, want: alive, left: 33,
		},
		"a lease that somebody emptied is a change, like any other write": {
			beats: []beatAt{{0, 9, false}, {3, 0, true}}, at: 10, want: alive, left: 33,
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(start)
			h := newHeartbeats(clock, 40*time.Second)
			key := types.NamespacedName{Namespace: "default", Name: "host-01"}
			for _, b := range c.beats {
				clock.SetTime(start.Add(time.Duration(b.second) * time.Second))
				if news := h.observe(key, renewal(b.renewal)); news != b.news {
					t.Errorf("at %d s, observe returns %t", b.second, news)
				}
			}
			clock.SetTime(start.Add(time.Duration(c.at) * time.Second))
			if got, left := h.of(key); got != c.want || left != time.Duration(c.left)*time.Second {
				t.Errorf("liveness %d with %v left, want %d with %d s", got, left, c.want, c.left)
			}
		})
	}
}

func TestResetStartsOver(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	h := newHeartbeats(clock, 40*time.Second)
	key := types.NamespacedName{Name: "host-01"}
	last := &metav1.MicroTime{Time: time.Unix(2, 0)}
	h.observe(key, nil)
	h.observe(key, last)
	h.reset(key, last)
	if got, _ := h.of(key); got != unseen {
		t.Errorf("after a reset the host is %d, want unseen", got)
	}
	if !h.observe(key, &metav1.MicroTime{Time: time.Unix(3, 0)}) {
		t.Error("observe does not report that the first heartbeat after a reset makes the host alive")
	}
}
