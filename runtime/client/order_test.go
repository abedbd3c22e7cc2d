package client_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/server"
)

// If a handler fails, the client does not wait for those after it in the order.
func TestAFailureEndsTheCallsAfterIt(t *testing.T) {
	b := newBench(t, client.Options{Parallel: 2})
	entered := make(chan struct{})
	b.extension("a", nil, server.Handle(hook.BeforeClusterCreate, "h",
		func(context.Context, *runtimehooksv1.BeforeClusterCreateRequest, *runtimehooksv1.BeforeClusterCreateResponse) error {
			<-entered // b is running
			return fmt.Errorf("disk is full")
		}))
	s := b.ca.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		hang(w, r)
	}), nil)
	b.register(b.config("b", s.URL), "h", runtimev1.FailurePolicyIgnore, 30)
	var asked atomic.Bool
	never := b.ca.Serve(t,
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked.Store(true); body(success)(w, r) }), nil)
	for i := range 5 {
		b.register(b.config(fmt.Sprintf("c%d", i), never.URL), "h", runtimev1.FailurePolicyFail, 30)
	}
	start := time.Now()
	_, err := b.create(t.Context())
	if want := `calling handlers of hook BeforeClusterCreate: handler "h.a": it answered Failure: disk is full`; err ==
		nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %s, as long as the slowest", took)
	}
	var seen []string
	for _, call := range b.observed() {
		seen = append(seen, fmt.Sprintf("%s %s", call.Extension, call.Answer))
	}
	if !slices.Equal(seen, []string{"a Failure", "b Canceled"}) || asked.Load() {
		t.Errorf("observed %v, others were asked: %t", seen, asked.Load())
	}
}

// Whichever handler fails first, the error is that of the first one in the order, so that conditions do not change.
func TestTheErrorIsThatOfTheFirstInTheOrder(t *testing.T) {
	b := newBench(t, client.Options{})
	for i, name := range []string{"a", "b", "c", "d"} {
		b.extension(name, nil, server.Handle(hook.BeforeClusterCreate, "h",
			func(ctx context.Context, _ *runtimehooksv1.BeforeClusterCreateRequest,
				_ *runtimehooksv1.BeforeClusterCreateResponse) error {
				select { // the later in the order, the sooner it fails
				case <-time.After(time.Duration(3-i) * 10 * time.Millisecond):
				case <-ctx.Done():
				}
				if name == "a" {
					return nil
				}
				return fmt.Errorf("from %s", name)
			}))
	}
	for range 20 {
		_, err := b.create(t.Context())
		if err == nil || !strings.HasSuffix(err.Error(), `handler "h.b": it answered Failure: from b`) {
			t.Fatalf("error is %v", err)
		}
	}
}

// One handler is slow, and the failure of another is ignored: no call is cancelled, and the round succeeds.
func TestIgnoredFailuresEndNobody(t *testing.T) {
	b := newBench(t, client.Options{})
	broken := b.ca.Serve(t, body("junk"), nil)
	b.register(b.config("a-broken", broken.URL), "h", runtimev1.FailurePolicyIgnore, 10)
	b.extension("b-slow", nil, server.Handle(hook.BeforeClusterCreate, "h",
		func(ctx context.Context, _ *runtimehooksv1.BeforeClusterCreateRequest,
			response *runtimehooksv1.BeforeClusterCreateResponse) error {
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
			response.Message = "done"
			return ctx.Err()
		}))
	response, err := b.create(t.Context())
	if err != nil || response.Message != "done" {
		t.Errorf("got %+v, %v", response, err)
	}
	if calls := b.observed(); len(calls) != 2 || calls[0].Answer != record.Ignored || calls[1].Answer != record.Success {
		t.Errorf("observed %+v", calls)
	}
}
