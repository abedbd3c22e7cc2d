package metricsapi

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var begin = time.Unix(1_700_000_000, 0)

// clock is a fake clock. It also stands for the kubelets: it records when they are asked, in seconds since begin.
type clock struct {
	at    time.Time
	asked []int
	err   error
}

func (f *clock) reader() *reader {
	r := newReader(func(context.Context) (map[string]map[container]point, error) {
		if f.err != nil {
			return nil, f.err
		}
		f.asked = append(f.asked, int(f.at.Sub(begin).Seconds()))
		return map[string]map[container]point{"n": {{}: {at: f.at, cpu: f.at.Sub(begin).Seconds() / 2}}}, nil
	})
	r.now = func() time.Time { return f.at }
	r.wait = func(ctx context.Context, d time.Duration) error {
		f.at = f.at.Add(d)
		return ctx.Err()
	}
	return r
}

func TestKubeletsAreReadWhenSomebodyAsks(t *testing.T) {
	f := &clock{at: begin}
	r := f.reader()
	for _, c := range []struct {
		pause time.Duration
		asked []int
	}{
		{0, []int{0, 2}},                // two readings for a rate
		{5 * time.Second, nil},          // the readings are still fresh
		{5 * time.Second, []int{12}},    // the last reading is not fresh any more
		{time.Minute, []int{72}},        // the last reading is recent enough as a base
		{time.Hour, []int{3672, 3674}},  // now it is too old
		{11 * time.Second, []int{3685}}, // the last reading is not fresh
	} {
		f.asked, f.at = nil, f.at.Add(c.pause)
		u, err := r.usages(t.Context())
		if err != nil || u.nodes["n"].cpu != 0.5 || !slices.Equal(f.asked, c.asked) {
			t.Errorf("%s later: %v, %v, asked at %v; want %v", c.pause, u, err, f.asked, c.asked)
		}
	}
}

func TestAReadingThatFails(t *testing.T) {
	f := &clock{at: begin, err: errors.New("refused")}
	r := f.reader()
	if _, err := r.usages(t.Context()); !errors.Is(err, f.err) {
		t.Errorf("got %v", err)
	}
	f.err = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.usages(ctx); !errors.Is(err, context.Canceled) { // between two readings, or before
		t.Errorf("got %v", err)
	}
	if u, err := r.usages(t.Context()); err != nil || u.nodes["n"].cpu != 0.5 {
		t.Errorf("the next request: %v, %v", u, err)
	}
	<-r.turn // another request is reading, and a kubelet is slow
	if _, err := r.usages(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestUsagesOf(t *testing.T) {
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	c := func(name string) container { return container{"ns", "pod", name} }
	before := &reading{nodes: map[string]map[container]point{"n": {
		{}:             {at: at(0), cpu: 100},
		c("same"):      {at: at(0), cpu: 10, start: at(-50)},
		c("restarted"): {at: at(0), cpu: 1, start: at(-50)},
		c("reset"):     {at: at(0), cpu: 10},
		c("gone"):      {at: at(0), cpu: 10},
		c("again"):     {at: at(10), cpu: 10},
	}}}
	after := &reading{nodes: map[string]map[container]point{
		"n": {
			{}:             {at: at(10), cpu: 105, memory: 7},
			c("same"):      {at: at(10), cpu: 30, memory: 8, start: at(-50)},
			c("restarted"): {at: at(10), cpu: 2, start: at(5)},
			c("reset"):     {at: at(10), cpu: 2},
			c("new"):       {at: at(10), cpu: 2, start: at(6)},
			c("again"):     {at: at(10), cpu: 10},
			c("odd"):       {cpu: 3},
		},
		"new": {{}: {at: at(10), cpu: 105}},
	}}
	got := usagesOf(before, after)
	if want := map[string]rate{"n": {at(10), 10 * time.Second, 0.5, 7}}; !maps.Equal(got.nodes, want) {
		t.Errorf("Nodes use %v, want %v", got.nodes, want)
	}
	want := map[string]rate{
		"same":      {at(10), 10 * time.Second, 2, 8},
		"restarted": {at(10), 5 * time.Second, 0.4, 0},
		"new":       {at(10), 4 * time.Second, 0.5, 0},
	}
	pod := types.NamespacedName{Namespace: "ns", Name: "pod"}
	if !maps.Equal(got.pods[pod], want) || len(got.pods) != 1 {
		t.Errorf("pods use %v, want %v", got.pods, want)
	}
}
