//go:build linux

package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// fault is what happens to one request of the provider.
type fault struct {
	name string
	// before says that the request is refused before it reaches the API server. If before is false, the request takes
	// effect, and its answer is replaced.
	before bool
	// answer returns the answer that the provider gets. If answer is nil, the connection breaks.
	answer func(*http.Request) *http.Response
}

var faults = []fault{
	{"conflict", true, status(http.StatusConflict, metav1.StatusReasonConflict, nil)},
	{"too many requests", true, status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests,
		http.Header{"Retry-After": {"1"}})},
	{"refused for a moment", true, status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, nil)},
	{"time-out without effect", true, status(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, nil)},
	{"time-out after the effect", false, status(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, nil)},
	{"connection lost after the effect", false, nil},
}

func status(code int, reason metav1.StatusReason, header http.Header) func(*http.Request) *http.Response {
	return func(r *http.Request) *http.Response {
		body, err := json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code),
			Reason:  reason,
			Message: "injected by a test",
		})
		if err != nil {
			return nil
		}
		h := http.Header{"Content-Type": {"application/json"}}
		for k, v := range header {
			h[k] = v
		}
		return &http.Response{
			StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: h, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
		}
	}
}

var errConnection = errors.New("connection lost, injected by a test")

// saboteur injects faults into requests that the provider sends to the API server: into the first request for each
// right, and into every nth request. It uses the kinds of faults in turn.
type saboteur struct {
	every int

	mu      sync.Mutex
	active  bool
	seen    map[string]bool // rights for which a request has failed
	count   int
	next    int
	spoiled []string
}

func (s *saboteur) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		f, spoil := s.choose(r)
		if !spoil {
			return next.RoundTrip(r)
		}
		if !f.before {
			response, err := next.RoundTrip(r)
			if err != nil {
				return nil, err
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		} else if r.Body != nil {
			_ = r.Body.Close()
		}
		if f.answer == nil {
			return nil, errConnection
		}
		return f.answer(r), nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// choose decides whether one request fails. Watches never fail, because they belong to the caches.
func (s *saboteur) choose(r *http.Request) (fault, bool) {
	if strings.Contains(r.URL.RawQuery, "watch=true") || r.URL.Path == "/api" ||
		strings.HasPrefix(r.URL.Path, "/apis") && strings.Count(r.URL.Path, "/") < 4 {
		return fault{}, false
	}
	right := r.Method + " " + resourceOf(r.URL.Path)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.active {
		return fault{}, false
	}
	s.count++
	if s.seen[right] && s.count%s.every != 0 {
		return fault{}, false
	}
	s.seen[right] = true
	f := faults[s.next%len(faults)]
	s.next++
	s.spoiled = append(s.spoiled, fmt.Sprintf("%s: %s", f.name, right))
	return f, true
}

// resourceOf returns resource and subresource of a path of the API.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, part := range parts {
		if part == "namespaces" && len(parts) > i+2 {
			what := parts[i+2]
			if len(parts) > i+4 {
				what += "/" + parts[i+4]
			}
			return what
		}
	}
	return parts[len(parts)-1]
}

// TestFaultsOfTheAPIServer takes a control plane machine and two workers through their life while the API server
// answers with conflicts, time-outs and 429, and breaks connections, sometimes after the request took effect.
// Everything converges, and nothing is created twice.
func TestFaultsOfTheAPIServer(t *testing.T) {
	rounds := []int{0}
	if os.Getenv("CAPSTAN_TEST_FAULTS") != "" {
		rounds = []int{0, 1, 2, 3, 4, 5}
	}
	for _, first := range rounds {
		t.Run(fmt.Sprintf("beginning with %s", faults[first].name), func(t *testing.T) {
			s := &saboteur{every: 7, seen: map[string]bool{}, next: first}
			w := newWorld(t, form{v1beta2}, 4, func(w *world) { w.wrap = s.wrap })
			s.set(true)
			w.provisionedCluster("demo")
			names := []string{"cp", "w1", "w2"}
			for _, name := range names {
				w.newMachine(name, machineOptions{controlPlane: name == "cp"})
			}
			for _, name := range names {
				w.ready(name)
			}
			if made := w.infra.made("create"); len(made) != len(names) || len(w.claims()) != len(names) {
				t.Errorf("want one instance and one claim for each of %d machines, got instances %v, claims %v",
					len(names), made, w.claims())
			}
			recordBoth(t, "IM-63")
			edit(w, read(w, "demo", &clusterv1.Cluster{}), pause(true))
			w.waitCondition("CapstanMachine", "w1", clusterv1.PausedCondition, "True")
			edit(w, read(w, "demo", &clusterv1.Cluster{}), pause(false))
			w.waitCondition("CapstanMachine", "w1", clusterv1.PausedCondition, "False")
			for _, name := range names {
				w.delete(w.machine(name))
			}
			for _, name := range names {
				w.gone("CapstanMachine", name)
			}
			w.delete(w.cluster("demo"))
			w.gone("CapstanCluster", "demo")
			w.until("all hosts are free", func() bool { return len(w.claims()) == 0 })
			if made := w.infra.made("delete", "unbalance"); len(made) != len(names)+1 {
				t.Errorf("deleted: %v, want each instance and the balancer once", made)
			}
			s.set(false) // so that the manager can stop undisturbed
			t.Logf("%d requests, spoiled: %s", s.count, strings.Join(s.spoiled, "; "))
			if len(s.spoiled) < 2*len(faults) {
				t.Errorf("only %d requests had a fault", len(s.spoiled))
			}
		})
	}
}

func (s *saboteur) set(active bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = active
}
