package client_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

// holding is an extension that counts its calls.
type holding struct {
	*bench
	asked   atomic.Int32
	wait    atomic.Int64 // seconds; 0 lets the object through, below 0 fails
	url     string
	request runtimehooksv1.BeforeClusterCreateRequest
}

func newHolding(t *testing.T, options client.Options) *holding {
	h := &holding{bench: newBench(t, options), request: runtimehooksv1.BeforeClusterCreateRequest{Cluster: *testCluster()}}
	h.request.Cluster.ResourceVersion = "1"
	h.wait.Store(3600)
	h.url = h.extension("ext", nil, server.Handle(hook.BeforeClusterCreate, "gate",
		func(context.Context, *runtimehooksv1.BeforeClusterCreateRequest, *runtimehooksv1.BeforeClusterCreateResponse) error {
			h.asked.Add(1)
			switch wait := h.wait.Load(); {
			case wait > 0:
				return server.Wait(time.Duration(wait)*time.Second, "no hosts")
			case wait < 0:
				return context.Canceled
			}
			return nil
		})).URL
	return h
}

func (h *holding) ask() (*runtimehooksv1.BeforeClusterCreateResponse, error) {
	response := &runtimehooksv1.BeforeClusterCreateResponse{}
	err := h.client.CallAllExtensions(h.t.Context(), runtimehooksv1.BeforeClusterCreate, &h.request.Cluster,
		&h.request, response)
	return response, err
}

// The eleventh defect seen in other clients: a caller that was told to wait an hour waited an hour, whatever had
// changed. Here the caller gets a short wait, the same answer again as long as nothing has changed, and a new answer as
// soon as something has.
func TestDefectABlockingAnswerHoldsUntilSomethingChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*holding)
		again  bool
	}{
		"nothing":              {func(*holding) {}, false},
		"the Cluster's status": {func(h *holding) { h.request.Cluster.ResourceVersion = "1234567" }, false},
		"the Cluster's spec":   {func(h *holding) { h.request.Cluster.Spec.Topology.Version = "v1.36.0" }, true},
		"an annotation of the Cluster": {
			func(h *holding) { h.request.Cluster.Annotations = map[string]string{"retry": "now"} }, true,
		},
		"another Cluster, same name": {func(h *holding) { h.request.Cluster.UID = "u2" }, true},
		"settings of the request":    {func(h *holding) { h.request.Settings = map[string]string{"a": "b"} }, true},
		"the ExtensionConfig's resync": {func(h *holding) {
			h.register(h.config("ext", h.url), "gate", runtimev1.FailurePolicyFail, 10)
		}, false},
		"the ExtensionConfig's settings": {func(h *holding) {
			config := h.config("ext", h.url)
			config.Spec.Settings = map[string]string{"a": "b"}
			h.register(config, "gate", runtimev1.FailurePolicyFail, 10)
		}, true},
		"the ExtensionConfig was touched": {func(h *holding) {
			config := h.config("ext", h.url)
			config.Annotations = map[string]string{"touched": "now"}
			h.register(config, "gate", runtimev1.FailurePolicyFail, 10)
		}, true},
		"one more extension": {func(h *holding) {
			h.extension("other", nil, server.Handle(hook.BeforeClusterCreate, "h", says("")))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHolding(t, client.Options{})
			h.register(h.config("ext", h.url), "gate", runtimev1.FailurePolicyFail, 10)
			for range 3 {
				response, err := h.ask()
				if err != nil || response.RetryAfterSeconds != 15 || response.Message != "no hosts" {
					t.Fatalf("got %+v, %v, want the longest wait that a caller gets at a time", response, err)
				}
				response.Message = "changed by the caller"
			}
			if h.asked.Load() != 1 || len(h.observed()) != 1 {
				t.Fatalf("asked %d times, %d calls observed", h.asked.Load(), len(h.observed()))
			}
			c.change(h)
			if response, err := h.ask(); err != nil || response.RetryAfterSeconds != 15 {
				t.Fatalf("got %+v, %v", response, err)
			}
			if again := h.asked.Load() == 2; again != c.again {
				t.Errorf("the extension was called again: %t, want %t", again, c.again)
			}
			t.Attr("rule", "CL-13")
		})
	}
}

func TestAHeldAnswerEndsWithTheWaitOfTheExtension(t *testing.T) {
	h := newHolding(t, client.Options{})
	h.wait.Store(1)
	deadline := time.Now().Add(20 * time.Second)
	for h.asked.Load() < 3 {
		response, err := h.ask()
		if err != nil || response.RetryAfterSeconds != 1 {
			t.Fatalf("got %+v, %v", response, err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("asked %d times in 20 s", h.asked.Load())
		}
	}
	h.wait.Store(0)
	for {
		response, err := h.ask()
		if err != nil {
			t.Fatal(err)
		}
		if response.RetryAfterSeconds == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it blocks forever")
		}
	}
}

func TestFailuresAndSuccessesAreNotHeld(t *testing.T) {
	h := newHolding(t, client.Options{})
	for _, wait := range []int64{-1, 0, -1, 0} {
		h.wait.Store(wait)
		if response, err := h.ask(); (err != nil) != (wait < 0) {
			t.Fatalf("got %+v, %v", response, err)
		}
	}
	if h.asked.Load() != 4 {
		t.Errorf("asked %d times", h.asked.Load())
	}
}

// Each Cluster has its own answer, and the number of remembered ones is bounded.
func TestHeldAnswersOfManyClusters(t *testing.T) {
	h := newHolding(t, client.Options{})
	for i := range 20 {
		h.request.Cluster.Name = string(rune('a' + i))
		for range 2 {
			if _, err := h.ask(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if h.asked.Load() != 20 {
		t.Errorf("asked %d times for 20 Clusters", h.asked.Load())
	}
}
