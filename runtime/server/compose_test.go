package server_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

func says(text string) server.Func[createRequest, createResponse] {
	return func(_ context.Context, _ *createRequest, response *createResponse) error {
		response.Message = text
		return nil
	}
}

func waits(after time.Duration, reason string) server.Func[createRequest, createResponse] {
	return func(context.Context, *createRequest, *createResponse) error { return server.Wait(after, reason) }
}

func fails(text string) server.Func[createRequest, createResponse] {
	return func(context.Context, *createRequest, *createResponse) error { return errors.New(text) }
}

// The joined result must not depend on which part was first, and no wait may be lost (CL-11, RX-27).
func TestComposedAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		handle server.Func[createRequest, createResponse]
		want   string
	}{
		"a sequence joins messages": {server.Sequence(says("a"), says(""), says("b")),
			`"status":"Success","message":"a, b","retryAfterSeconds":0}`},
		"a sequence ends with the first part that waits": {
			server.Sequence(says("a"), waits(5*time.Second, "no hosts"), fails("never called")),
			`"status":"Success","message":"no hosts","retryAfterSeconds":5}`,
		},
		"a sequence ends with the first part that fails": {
			server.Sequence(fails("no license"), waits(time.Second, "never called")),
			`"status":"Failure","message":"no license","retryAfterSeconds":0}`,
		},
		"messages of parallel parts have an order": {server.Parallel(says("a"), says("b"), says("c")),
			`"status":"Success","message":"a, b, c","retryAfterSeconds":0}`},
		"the shortest wait of parallel parts is used": {
			server.Parallel(waits(9*time.Second, "a"), says("fine"), waits(4*time.Second, "b")),
			`"status":"Success","message":"a, b","retryAfterSeconds":4}`,
		},
		"failures of parallel parts take precedence over waits": {
			server.Parallel(waits(time.Second, "a"), fails("x"), fails("y")),
			`"status":"Failure","message":"x, y","retryAfterSeconds":0}`,
		},
		"a parallel part that sets retryAfterSeconds by hand is refused": {server.Parallel(retriesByHand, says("a")),
			`"message":"the handler set retryAfterSeconds itself; it must return server.Wait","retryAfterSeconds":0}`},
	} {
		for range 20 {
			w := post(newServer(t, gate(c.handle)), createPath, `{"cluster":{}}`)
			if w.Code != http.StatusOK || !strings.HasSuffix(w.Body.String(), c.want) {
				t.Fatalf("%s: %d %s\nwant %s", name, w.Code, w.Body, c.want)
			}
		}
		switch name {
		case "messages of parallel parts have an order":
			t.Attr("rule", "RX-27")
		case "the shortest wait of parallel parts is used":
			t.Attr("rule", "CL-11")
		}
	}
}

func retriesByHand(_ context.Context, _ *createRequest, response *createResponse) error {
	response.RetryAfterSeconds = 7
	return nil
}

func TestASequenceFillsOneAnswer(t *testing.T) {
	part := func(name string) server.Func[runtimehooksv1.DiscoverVariablesRequest,
		runtimehooksv1.DiscoverVariablesResponse] {
		return func(_ context.Context, _ *runtimehooksv1.DiscoverVariablesRequest,
			response *runtimehooksv1.DiscoverVariablesResponse) error {
			response.Variables = append(response.Variables, clusterv1.ClusterClassVariable{Name: name})
			return nil
		}
	}
	s := newServer(t,
		server.Handle(hook.DiscoverVariables, "sequence", server.Sequence(part("a"), part("b"))),
		server.Handle(hook.DiscoverVariables, "parallel", server.Parallel(part("a"), part("b"))))
	if w := post(s, group+"discovervariables/sequence", `{}`); !strings.Contains(w.Body.String(), `"name":"a"`) ||
		!strings.Contains(w.Body.String(), `"name":"b"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := post(s, group+"discovervariables/parallel", `{}`); !strings.Contains(w.Body.String(), "use server.Sequence") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Each part has its own request, so that parts can't race for it.
func TestPartsShareNothing(t *testing.T) {
	part := func(_ context.Context, request *createRequest, _ *createResponse) error {
		request.Cluster.Labels["a"] += "b"
		if request.Cluster.Labels["a"] != "b" {
			return errors.New("another part was here")
		}
		return nil
	}
	w := post(newServer(t, gate(server.Parallel(part, part, part, part))), createPath,
		`{"cluster":{"metadata":{"labels":{"a":""}}}}`)
	if !strings.Contains(w.Body.String(), "Success") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestAPanicOfAPartIsIsolated(t *testing.T) {
	s := newServer(t,
		gate(server.Parallel(says("a"), func(context.Context, *createRequest, *createResponse) error {
			panic("secret detail")
		})))
	if w := post(s, createPath, `{"cluster":{}}`); w.Code != http.StatusInternalServerError ||
		strings.Contains(w.Body.String(), "secret") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := post(s, group+"discovery", `{}`); w.Code != http.StatusOK {
		t.Errorf("after the panic: %d %s", w.Code, w.Body)
	}
}

func TestWhatIsNotCompleteIsReported(t *testing.T) {
	for name, handle := range map[string]server.Func[createRequest, createResponse]{
		"an empty sequence":     server.Sequence[createRequest, createResponse](),
		"a sequence with a nil": server.Sequence(says("a"), nil),
		"no parallel parts":     server.Parallel[createRequest, createResponse](),
	} {
		if _, err := server.New(server.Options{}, gate(handle)); err == nil ||
			!strings.Contains(err.Error(), "the function is nil") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
