package metricsapi

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Ages of readings. Nothing is read unless a client asks: an idle cluster stays idle.
const (
	fresh   = 10 * time.Second // a reading younger than this is used again
	useful  = 2 * time.Minute  // a reading older than this is not used as the base of a rate
	between = 2 * time.Second  // pause between two readings for one answer
)

// A reading holds what all Nodes answered at one time.
type reading struct {
	at    time.Time
	nodes map[string]map[container]point // by the name of the Node
}

// A reader keeps the last two readings.
type reader struct {
	read func(context.Context) (map[string]map[container]point, error)
	now  func() time.Time
	wait func(context.Context, time.Duration) error

	turn          chan struct{} // holds one token; whoever takes it may use the fields below
	before, after *reading
}

func newReader(read func(context.Context) (map[string]map[container]point, error)) *reader {
	r := &reader{read: read, now: time.Now, wait: wait, turn: make(chan struct{}, 1)}
	r.turn <- struct{}{}
	return r
}

// usages returns the current usage of Nodes and pods.
func (r *reader) usages(ctx context.Context) (usages, error) {
	before, after, err := r.pair(ctx)
	if err != nil {
		return usages{}, err
	}
	return usagesOf(before, after), nil
}

// pair returns two readings, of which the second is fresh. If readings are missing, pair takes them.
func (r *reader) pair(ctx context.Context) (before, after *reading, err error) {
	select {
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	case <-r.turn:
	}
	defer func() { r.turn <- struct{}{} }()
	if r.after == nil || r.now().Sub(r.after.at) > useful {
		if err := r.next(ctx); err != nil {
			return nil, nil, err
		}
		r.before = nil
	}
	if r.before == nil {
		if err := r.wait(ctx, between); err != nil {
			return nil, nil, err
		}
	}
	if r.before == nil || r.now().Sub(r.after.at) >= fresh {
		if err := r.next(ctx); err != nil {
			return nil, nil, err
		}
	}
	return r.before, r.after, nil
}

// next takes one reading: it asks the kubelets.
func (r *reader) next(ctx context.Context) error {
	at := r.now()
	nodes, err := r.read(ctx)
	if err != nil {
		return err
	}
	r.before, r.after = r.after, &reading{at: at, nodes: nodes}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// A rate is the current usage of a container or a Node.
type rate struct {
	at     time.Time
	window time.Duration
	cpu    float64 // processors
	memory float64 // bytes
}

// usages is the current usage of Nodes, by name, and of containers, by name and pod.
type usages struct {
	nodes map[string]rate
	pods  map[types.NamespacedName]map[string]rate
}

// usagesOf returns the usages between two readings.
func usagesOf(before, after *reading) usages {
	u := usages{nodes: map[string]rate{}, pods: map[types.NamespacedName]map[string]rate{}}
	for node, points := range after.nodes {
		for key, p := range points {
			base, has := before.nodes[node][key]
			r, ok := rateOf(base, has, p)
			pod := types.NamespacedName{Namespace: key.namespace, Name: key.pod}
			switch {
			case !ok:
			case key == container{}:
				u.nodes[node] = r
			case u.pods[pod] == nil:
				u.pods[pod] = map[string]rate{key.name: r}
			default:
				u.pods[pod][key.name] = r
			}
		}
	}
	return u
}

// rateOf returns the usage between two points. A container that started in between counts from its start. rateOf
// returns false if there is no point to compare with.
func rateOf(base point, has bool, p point) (rate, bool) {
	if !has || p.start.After(base.at) || p.cpu < base.cpu {
		base = point{at: p.start}
	}
	window := p.at.Sub(base.at)
	if base.at.IsZero() || p.at.IsZero() || window <= 0 {
		return rate{}, false
	}
	return rate{p.at, window, (p.cpu - base.cpu) / window.Seconds(), p.memory}, true
}
