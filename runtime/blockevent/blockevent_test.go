package blockevent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/record"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func block(err error) record.Call {
	c := record.Call{
		Time: start, Hook: "g/v1/BeforeClusterUpgrade", Extension: "capstan", Handler: "window", Answer: record.Blocked,
		Message: "closed",
		Object:  record.Object{Kind: "Cluster", Namespace: "default", Name: "blue"},
	}
	if err != nil {
		c.Answer, c.Err, c.Message = record.Failure, err, ""
	}
	return c
}

func TestDescribe(t *testing.T) {
	ended := func(hook string, answer record.Answer, by string) *record.Call {
		return &record.Call{Time: start.Add(90 * time.Second), Hook: "g/v1/" + hook, Answer: answer, PassedBy: by}
	}
	for name, c := range map[string]struct {
		call  record.Call
		ended *record.Call
		want  string
	}{
		"the handler waits": {block(nil), nil,
			"Normal HookBlocked Hook BeforeClusterUpgrade has been blocked since 2026-01-02T03:04:05Z: handler window of " +
				"extension capstan waits: closed"},
		"the handler fails": {block(errors.New("no route")), nil,
			"Warning HookBlocked Hook BeforeClusterUpgrade has been blocked since 2026-01-02T03:04:05Z: handler window of " +
				"extension capstan fails: no route"},
		"the handler lets the Cluster through": {block(nil), ended("BeforeClusterUpgrade", record.Success, ""),
			"Normal HookReleased Hook BeforeClusterUpgrade continues after 1m30s: handler window of extension capstan lets " +
				"the Cluster through"},
		"an administrator lets the Cluster through": {
			block(nil), ended("BeforeClusterUpgrade", record.Passed, "alice: now"),
			"Warning HookUnblocked Hook BeforeClusterUpgrade was passed after 1m30s, although handler window of extension " +
				"capstan blocks it; let through by alice: now",
		},
		"the Cluster is at another hook": {block(nil), ended("BeforeClusterDelete", record.Success, ""),
			"Normal HookReleased Hook BeforeClusterUpgrade no longer blocks after 1m30s: the Cluster is at " +
				"BeforeClusterDelete now"},
	} {
		t.Run(name, func(t *testing.T) {
			kind, reason, message, _ := describe(record.Change{
				Block: record.Block{Call: c.call, Since: start, Calls: 3}, Ended: c.ended,
			})
			if got := kind + " " + reason + " " + message; got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// api is an API server that fails a given number of times.
type api struct {
	client.Reader
	client.Writer
	failures int
	missing  bool
	events   []*corev1.Event
	made     chan struct{}
}

func (a *api) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	if a.missing {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "clusters"}, key.Name)
	}
	return nil
}

func (a *api) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	if a.failures > 0 {
		a.failures--
		return errors.New("the API server is away")
	}
	a.events = append(a.events, object.(*corev1.Event))
	a.made <- struct{}{}
	return nil
}

func newWriter(t *testing.T, a *api, calls ...record.Call) *Writer {
	t.Helper()
	a.made = make(chan struct{}, 10)
	w, err := New(Options{Reader: a, Writer: a, Component: "test", Calls: calls})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// An Event is created once the API server is available again, with a name derived from the block.
func TestEventsOutliveAnAPIServer(t *testing.T) {
	one, two := &api{failures: 2}, &api{}
	for _, a := range []*api{one, two} {
		w := newWriter(t, a)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		ended := make(chan error, 1)
		go func() { ended <- w.Start(ctx) }()
		w.Observe(block(nil))
		select {
		case <-a.made:
		case <-ctx.Done():
			t.Error("no Event was made")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if len(one.events) != 1 || len(two.events) != 1 || one.events[0].Name != two.events[0].Name {
		t.Errorf("two processes made the Events %v and %v", one.events, two.events)
	}
}

// Over is called for a hook when the last of its blocks is over. It is not called before, because a permission to pass
// the hook is still needed.
func TestOverWhenNothingHoldsAnyMore(t *testing.T) {
	for name, c := range map[string]struct {
		calls string // handler and answer of each: B blocked, F failed, S let through, P overridden by an administrator
		want  int    // how often Over is called
	}{
		"the only handler lets the Cluster through":                     {"aB aS", 1},
		"one of two handlers lets the Cluster through":                  {"aB bB aS", 0},
		"both handlers let the Cluster through, one after the other":    {"aB bB aS bS", 1},
		"one of two handlers lets the Cluster through, the other fails": {"aB bF aS", 0},
		"an administrator overrides both handlers":                      {"aB bB aP bP", 1},
		"the handler blocks again, and then lets the Cluster through":   {"aB aS aB aS", 2},
	} {
		t.Run(name, func(t *testing.T) {
			over := 0
			w := newWriter(t, &api{})
			w.options.Over = func(_ context.Context, _ *clusterv1.Cluster, hook string) error {
				if over++; hook != "BeforeClusterUpgrade" {
					t.Errorf("hook %s", hook)
				}
				return nil
			}
			for i, step := range strings.Fields(c.calls) {
				call := block(nil)
				call.Time, call.Handler = start.Add(time.Duration(i)*time.Minute), step[:1]
				call.Answer = map[string]record.Answer{
					"B": record.Blocked, "F": record.Failure, "S": record.Success, "P": record.Passed,
				}[step[1:]]
				for _, change := range w.tracker.Add(call) {
					w.write(t.Context(), change)
				}
			}
			if over != c.want {
				t.Errorf("Over was called %d times, want %d", over, c.want)
			}
		})
	}
}

// For a deleted Cluster nothing is reported, and nothing is remembered.
func TestClustersThatAreGone(t *testing.T) {
	a := &api{missing: true}
	w := newWriter(t, a, block(nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.write(t.Context(), record.Change{Block: w.tracker.Blocks()[0]})
	if err := w.Start(ctx); err != nil || len(w.tracker.Blocks()) != 0 || len(a.events) != 0 {
		t.Errorf("Start returned %v; the blocks are %v, the Events %v", err, w.tracker.Blocks(), a.events)
	}
}

// Observing never blocks, even with a full queue, and ignores calls of hooks other than lifecycle hooks.
func TestObserveNeverWaits(t *testing.T) {
	w := newWriter(t, &api{})
	for range maxQueue + 10 {
		w.Observe(block(nil))
	}
	if len(w.queue) != maxQueue {
		t.Errorf("%d calls are in the queue", len(w.queue))
	}
	w = newWriter(t, &api{})
	other, machine := block(nil), block(nil)
	other.Hook, machine.Object.Kind = "g/v1/GeneratePatches", "Machine"
	w.Observe(other)
	w.Observe(machine)
	if len(w.queue) != 0 {
		t.Errorf("%d calls are in the queue", len(w.queue))
	}
}

func TestEventsHaveNamesThatAreAllowed(t *testing.T) {
	w := newWriter(t, &api{})
	cluster := &clusterv1.Cluster{}
	cluster.Name = strings.Repeat("x", 63)
	event := w.event(cluster, record.Change{
		Block: record.Block{Call: block(errors.New(strings.Repeat("y", 5000))), Since: start},
	})
	if len(event.Name) > 253 || len(event.Message) > maxMessage+3 {
		t.Errorf("name %q, message of %d bytes", event.Name, len(event.Message))
	}
}
