package client_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

// A call ends at its timeout and then counts as failed. The query tells the extension its timeout.
func TestACallEndsAtItsTimeout(t *testing.T) {
	b := newBench(t, client.Options{})
	asked := make(chan string, 1)
	b.raw(runtimev1.FailurePolicyFail, 1, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Query().Get("timeout")
		hang(w, r)
	})
	start := time.Now()
	_, err := b.gate(t.Context())
	if took := time.Since(start); err == nil || !strings.Contains(err.Error(), "did not answer within 1s") ||
		took < time.Second || took > 5*time.Second {
		t.Errorf("after %s: %v", took, err)
	}
	t.Attr("rule", "CL-01")
	if told := <-asked; told != "1s" {
		t.Errorf("the extension was told the timeout %q", told)
	}
}

// After a round that was held back, the next round calls all handlers again, even those that let the object through.
func TestAllAreAskedAgain(t *testing.T) {
	for name, first := range map[string]createFunc{
		"one handler blocks": waits(time.Second, "no hosts"), "one handler fails": fails("no license"),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, client.Options{Parallel: 1, Recheck: time.Second})
			var passes atomic.Bool
			asked := map[string]*atomic.Int32{"a": {}, "b": {}}
			for extension, counted := range asked {
				b.extension(extension, nil, server.Handle(
					hook.BeforeClusterCreate,
					"h",
					func(ctx context.Context, r *runtimehooksv1.BeforeClusterCreateRequest,
						w *runtimehooksv1.BeforeClusterCreateResponse) error {
						counted.Add(1)
						if extension == "b" && !passes.Load() {
							return first(ctx, r, w)
						}
						return nil
					},
				))
			}
			rounds(t, b, asked, &passes)
			switch name {
			case "one handler blocks":
				t.Attr("rule", "CL-12")
			case "one handler fails":
				t.Attr("rule", "CL-10")
			}
		})
	}
}

// rounds calls until both extensions were called three times, then lets the second one pass, and calls until all pass.
func rounds(t *testing.T, b *bench, asked map[string]*atomic.Int32, passes *atomic.Bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	through := func() bool {
		response, err := b.create(t.Context())
		return err == nil && response.RetryAfterSeconds == 0
	}
	wait := func(what string, done func() bool) {
		t.Helper()
		for !done() {
			select {
			case <-deadline:
				t.Fatalf("not in time: %s; a was called %d times and b %d times", what, asked["a"].Load(),
					asked["b"].Load())
			case <-tick.C:
			}
		}
	}
	wait("both are called again", func() bool {
		if through() {
			t.Fatal("the round goes through, although b holds the object back")
		}
		return asked["a"].Load() >= 3 && asked["b"].Load() >= 3
	})
	before := asked["a"].Load()
	passes.Store(true)
	wait("the round goes through", through)
	if now := asked["a"].Load(); now <= before {
		t.Error("a, which had passed before, was not called in the round that goes through")
	}
}

// The client does not remember a failure: calls fail only as long as the extension does.
func TestFailGoesOnUntilItPasses(t *testing.T) {
	b := newBench(t, client.Options{})
	var left atomic.Int32
	left.Store(3)
	b.extension("ext", nil, server.Handle(
		hook.BeforeClusterCreate,
		"gate",
		func(context.Context, *runtimehooksv1.BeforeClusterCreateRequest, *runtimehooksv1.BeforeClusterCreateResponse) error {
			if left.Add(-1) >= 0 {
				return errors.New("no license")
			}
			return nil
		},
	))
	for range 3 {
		if response, err := b.create(t.Context()); err == nil {
			t.Fatalf("an error of the extension blocks nothing: %+v", response)
		}
	}
	t.Attr("rule", "CL-09")
	if _, err := b.create(t.Context()); err != nil {
		t.Errorf("after the extension works again: %v", err)
	}
	t.Attr("rule", "CL-06")
}
