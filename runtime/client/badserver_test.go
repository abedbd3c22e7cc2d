package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/record"
)

// hang answers only when the caller has disconnected.
func hang(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// flood sends a body that never ends.
func flood(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, `{"message":"`)
	padding := strings.Repeat("x", 1<<20)
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, padding); err != nil {
			return
		}
	}
}

// drip sends single bytes with pauses, so it stays below any limit of size.
func drip(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
			_, _ = io.WriteString(w, " ")
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// reset answers with a TCP reset.
func reset(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*tls.Conn).NetConn().(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
	}
}

// cut announces more than it sends.
func cut(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, success)
}

// huge answers Success with a message of 64 MiB.
func huge(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, `{"status":"Success","message":"`)
	padding := strings.Repeat("x", 1<<20)
	for range 64 {
		if _, err := io.WriteString(w, padding); err != nil {
			return
		}
	}
	_, _ = io.WriteString(w, `"}`)
}

func status(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		http.Error(w, text, code)
	}
}

// Each of these is a failed call: an error under Fail, an empty Success under Ignore (CL-04). The body is never used.
func TestBadServers(t *testing.T) {
	const head = `"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"BeforeClusterCreateResponse","status":"Success"`
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"the server hangs":                     {hang, "did not answer within 1s"},
		"the server sends single bytes":        {drip, "did not answer within 1s"},
		"the server sends without end":         {flood, "body too large"},
		"the server resets the connection":     {reset, "connection reset by peer"},
		"the server ends the body early":       {cut, "unexpected EOF"},
		"the server answers Success in 64 MiB": {huge, "body too large"},
		"the server redirects": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://127.0.0.1:1/", http.StatusFound)
		}, "HTTP status 302 instead of 200"},
		"the server answers 500 with a text": {status(500, "database is down"),
			`HTTP status 500 instead of 200: "database is down"`},
		"the server answers 204": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
			"HTTP status 204 instead of 200",
		},
		"the server answers 404 in 64 MiB": {
			func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(404); huge(w, r) }, "HTTP status 404 instead of 200",
		},
		"an empty body": {body(""), "the body is empty"},
		"no JSON":       {body("hello"), "not a JSON object"},
		"a JSON list":   {body("[]"), "not a JSON object"},
		"null":          {body("null"), "not a JSON object"},
		"an incomplete object": {body(`{"status":"Success","retryAfterSeconds":60`),
			"unexpected end of JSON input"},
		"a retry and then a wrong type": {body(`{"retryAfterSeconds":60,"message":"stop","status":{}}`),
			"cannot unmarshal object"},
		"trailing bytes": {body(success + "x"), "invalid character 'x' after top-level value"},
		"two objects":    {body(success + success), "after top-level value"},
		"another kind": {
			body(
				`{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"BeforeClusterDeleteResponse","status":"Success"}`),
			`the body is a "BeforeClusterDeleteResponse"`,
		},
		"the kind of the request": {body(`{"kind":"BeforeClusterCreateRequest","status":"Success"}`),
			`the body is a "BeforeClusterCreateRequest"`},
		"another apiVersion": {
			body(`{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1","kind":"BeforeClusterCreateResponse","status":"Success"}`),
			`its apiVersion is "hooks.runtime.cluster.x-k8s.io/v1"`,
		},
		"an invalid apiVersion": {
			body(`{"apiVersion":"a/b/c","kind":"BeforeClusterCreateResponse","status":"Success"}`), `its apiVersion is "a/b/c"`,
		},
		"a negative retryAfterSeconds": {body(`{` + head + `,"retryAfterSeconds":-5}`), "retryAfterSeconds of -5"},
		"a retryAfterSeconds beyond 32 bits": {body(`{` + head + `,"retryAfterSeconds":99999999999}`),
			"cannot unmarshal number 99999999999"},
		"a fractional retryAfterSeconds": {body(`{` + head + `,"retryAfterSeconds":1.5}`), "cannot unmarshal number 1.5"},
		"very deep JSON":                 {body(`{"x":` + strings.Repeat("[", 1<<20) + `}`), "exceeded max depth"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, policy := range []runtimev1.FailurePolicy{runtimev1.FailurePolicyFail, runtimev1.FailurePolicyIgnore} {
				b := newBench(t, client.Options{})
				timeout := int32(10)
				if strings.Contains(c.want, "within 1s") {
					timeout = 1
				}
				b.raw(policy, timeout, c.handler)
				response := &runtimehooksv1.BeforeClusterCreateResponse{}
				response.Message = "untouched"
				err := b.client.CallExtension(t.Context(), runtimehooksv1.BeforeClusterCreate, testCluster(), "gate.ext",
					&runtimehooksv1.BeforeClusterCreateRequest{}, response)
				call := b.observed()[0]
				if policy == runtimev1.FailurePolicyFail {
					if err == nil || !strings.Contains(err.Error(), c.want) {
						t.Errorf("Fail: error is %v, want one with %q", err, c.want)
					}
					if response.Message != "untouched" || response.Status != "" || response.RetryAfterSeconds != 0 {
						t.Errorf("Fail: the response was touched: %+v", response)
					}
					if call.Answer != record.Failure || !errors.Is(err, call.Err) {
						t.Errorf("Fail: observed %+v", call)
					}
					switch name {
					case "the server hangs":
						t.Attr("rule", "CL-01")
					case "the server answers 500 with a text":
						t.Attr("rule", "RX-44")
					case "the server redirects":
						t.Attr("rule", "CL-21")
					case "another kind":
						t.Attr("rule", "RX-07")
					}
					continue
				}
				if err != nil {
					t.Errorf("Ignore: %v", err)
				}
				if response.Status != runtimehooksv1.ResponseStatusSuccess || response.Message != "" ||
					response.RetryAfterSeconds != 0 {
					t.Errorf("Ignore: something of the body was used: %+v", response)
				}
				t.Attr("rule", "CL-04")
				if call.Answer != record.Ignored || call.Err == nil || !strings.Contains(call.Err.Error(), c.want) {
					t.Errorf("Ignore: observed %+v", call)
				}
			}
		})
	}
}

// The second defect seen in other clients: under Ignore, a retryAfterSeconds or half a patch survived from a body that
// could not be decoded.
func TestDefectNothingOfABrokenAnswerSurvivesIgnore(t *testing.T) {
	b := newBench(t, client.Options{})
	b.raw(runtimev1.FailurePolicyIgnore, 10, body(`{"status":"Success","retryAfterSeconds":60,"message":"stop","kind":7}`))
	for name, call := range map[string]func(context.Context) (*runtimehooksv1.BeforeClusterCreateResponse, error){
		"one": b.gate, "all": b.create,
	} {
		response, err := call(t.Context())
		if err != nil || response.RetryAfterSeconds != 0 || response.Message != "" ||
			response.Status != runtimehooksv1.ResponseStatusSuccess {
			t.Errorf("%s: got %+v, %v", name, response, err)
		}
	}
}

// The sixth defect seen in other clients: answers of another kind, and bytes after the answer, were accepted.
func TestDefectAnswersOfAnotherKindAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"another kind":       strings.Replace(success, "BeforeClusterCreateResponse", "BeforeClusterDeleteResponse", 1),
		"another apiVersion": strings.Replace(success, "v1alpha1", "v1alpha2", 1),
		"trailing bytes":     success + "{}",
	} {
		b := newBench(t, client.Options{})
		b.raw(runtimev1.FailurePolicyFail, 10, body(text))
		if response, err := b.gate(t.Context()); err == nil {
			t.Errorf("%s: got %+v", name, response)
		}
		t.Attr("rule", "RX-07")
	}
}

// A failure reported by the handler itself is an error whatever the policy (CL-05, CL-20).
func TestAnswersThatNoPolicyExcuses(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"Failure with a message":    {`{"status":"Failure","message":"no license"}`, "it answered Failure: no license"},
		"Failure without a message": {`{"status":"Failure"}`, "Failure without a message"},
		"no status":                 {`{"message":"well"}`, "no status"},
		"an empty object":           {`{}`, "no status"},
		"an unknown status":         {`{"status":"Maybe"}`, `unknown status "Maybe"`},
	} {
		for _, policy := range []runtimev1.FailurePolicy{runtimev1.FailurePolicyFail, runtimev1.FailurePolicyIgnore} {
			t.Run(fmt.Sprintf("%s, policy %s", name, policy), func(t *testing.T) {
				b := newBench(t, client.Options{})
				b.raw(policy, 1, body(c.body))
				_, err := b.gate(t.Context())
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error is %v, want one with %q", err, c.want)
				}
				switch name {
				case "Failure with a message":
					t.Attr("rule", "CL-05")
				case "an unknown status":
					t.Attr("rule", "CL-20")
				}
				if call := b.observed()[0]; call.Answer != record.Failure {
					t.Errorf("observed %+v", call)
				}
			})
		}
	}
}

// Published servers leave out apiVersion and kind.
func TestAnswersWithoutKindAreAccepted(t *testing.T) {
	b := newBench(t, client.Options{})
	b.raw(runtimev1.FailurePolicyFail, 1, body(`{"status":"Success","message":"go","later":"field"}`+"\n"))
	response, err := b.gate(t.Context())
	if err != nil || response.Message != "go" {
		t.Errorf("got %+v, %v", response, err)
	}
}

// The eleventh defect seen in other clients: a caller that got a long retryAfterSeconds did not ask again until it was
// over, so the extension could not shorten the wait. See also TestDefectABlockingAnswerHoldsUntilSomethingChanges.
func TestDefectLongWaitsAreCut(t *testing.T) {
	for name, c := range map[string]struct {
		said string
		want int32
	}{
		"68 years": {"2147483647", 300},
		"one hour": {"3600", 300},
		"a minute": {"60", 60},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, client.Options{Recheck: time.Hour})
			b.raw(runtimev1.FailurePolicyFail, 10, body(`{"status":"Success","retryAfterSeconds":`+c.said+`}`))
			response, err := b.create(t.Context())
			if err != nil || response.RetryAfterSeconds != c.want {
				t.Errorf("got %+v, %v, want a wait of %d s", response, err, c.want)
			}
			if call := b.observed()[0]; fmt.Sprintf("%.0f", call.RetryAfter.Seconds()) != c.said {
				t.Errorf("the record says %s, the extension said %s", call.RetryAfter, c.said)
			}
		})
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	b := newBench(t, client.Options{})
	b.raw(runtimev1.FailurePolicyFail, 1, body(`{"status":"Success","message":"`+strings.Repeat("ä", 1<<20)+`"}`))
	response, err := b.create(t.Context())
	if err != nil || len(response.Message) > 4<<10 || !strings.HasSuffix(response.Message, "ä…") {
		t.Errorf("the message has %d bytes, error %v", len(response.Message), err)
	}
}

// The first defect seen in other clients: the bound on bodies applied only to answers that were errors anyway.
func TestDefectNoMoreIsReadThanIsAllowed(t *testing.T) {
	sent := make(chan int, 1)
	b := newBench(t, client.Options{})
	b.raw(runtimev1.FailurePolicyFail, 30, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		total, padding := 0, strings.Repeat(" ", 1<<20)
		for range 256 {
			n, err := io.WriteString(w, padding)
			total += n
			if err != nil {
				break
			}
		}
		sent <- total
	})
	if _, err := b.gate(t.Context()); err == nil || !strings.Contains(err.Error(), "body too large") {
		t.Fatalf("error is %v", err)
	}
	// 20 MiB are allowed; the kernel buffers some more on both sides.
	if total := <-sent; total > 64<<20 {
		t.Errorf("the server could send %d MiB", total>>20)
	}
	t.Attr("rule", "CL-21")
}

// The third defect seen in other clients: under Ignore, a call counted as a success if the caller's own context ended.
func TestDefectCallersContextIsAnErrorUnderIgnore(t *testing.T) {
	entered := make(chan struct{}, 1)
	b := newBench(t, client.Options{})
	b.raw(runtimev1.FailurePolicyIgnore, 30, func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		hang(w, r)
	})
	cause := errors.New("the controller stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-entered
		cancel(cause)
	}()
	if response, err := b.create(ctx); !errors.Is(err, cause) {
		t.Errorf("cancelled in the middle: %+v, %v", response, err)
	}
	if response, err := b.gate(ctx); !errors.Is(err, cause) {
		t.Errorf("cancelled before: %+v, %v", response, err)
	}
	expired, cancelExpired := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancelExpired()
	if response, err := b.create(expired); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("expired: %+v, %v", response, err)
	}
}

// Twenty handlers must not take twenty times as long as one.
func TestOneDeadlineForAllHandlers(t *testing.T) {
	b := newBench(t, client.Options{Parallel: 2, Deadline: 100 * time.Millisecond})
	s := b.ca.Serve(t, http.HandlerFunc(hang), nil)
	for i := range 6 {
		b.register(b.config(fmt.Sprintf("e%d", i), s.URL), "h", runtimev1.FailurePolicyIgnore, 30)
	}
	start := time.Now()
	_, err := b.create(t.Context())
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
	if err == nil || !strings.Contains(err.Error(),
		`handler "h.e0": the deadline for all handlers of the hook together has passed`) {
		t.Errorf("error is %v", err)
	}
}
