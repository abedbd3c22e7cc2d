package providers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestProbe(t *testing.T) {
	for name, c := range map[string]struct {
		probe *corev1.HTTPGetAction
		want  string
	}{
		"no HTTP probe": {nil, ""},
		"a port given by name": {&corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromString("healthz")},
			"http://127.0.0.1:9501/readyz"},
		"a port given by number": {&corev1.HTTPGetAction{Path: "readyz", Port: intstr.FromInt32(80)},
			"http://127.0.0.1:80/readyz"},
		"a probe with TLS": {&corev1.HTTPGetAction{Port: intstr.FromInt32(80), Scheme: corev1.URISchemeHTTPS},
			"https://127.0.0.1:80"},
		"a port that the container does not have": {&corev1.HTTPGetAction{Port: intstr.FromString("other")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			container := &corev1.Container{Ports: []corev1.ContainerPort{{Name: "healthz", ContainerPort: 9501}}}
			if c.probe != nil {
				container.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: c.probe}}
			}
			got := ""
			if p := newProbe(container, container.ReadinessProbe); p != nil {
				got = p.URL
			}
			if got != c.want {
				t.Errorf("the URL of the probe is %q, want %q", got, c.want)
			}
		})
	}
}

// TestWatch: a probe reports a failure after threshold consecutive failures, and then the first success.
func TestWatch(t *testing.T) {
	var asked, failing atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if failing.Load() > 0 && failing.Add(-1) >= 0 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p := &probe{URL: server.URL, period: time.Millisecond, timeout: patience, threshold: 3}
	told := make(chan error)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.watch(ctx, func(err error) bool {
			told <- err
			return true
		})
	}()
	next := func() error {
		t.Helper()
		select {
		case err := <-told:
			return err
		case <-ctx.Done():
			t.Fatal("the probe did not report anything")
			return nil
		}
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for !done() {
			select {
			case err := <-told:
				t.Fatalf("while waiting until %s, the probe reported %v", what, err)
			case <-ctx.Done():
				t.Fatal(what)
			case <-time.After(time.Millisecond):
			}
		}
	}
	failing.Store(2) // fewer than the threshold
	until("the server has failed twice", func() bool { return failing.Load() == 0 })
	at := asked.Load()
	until("the server has answered some more requests", func() bool { return asked.Load() > at+3 })

	failing.Store(1 << 30)
	if err := next(); err == nil || !strings.Contains(err.Error(), "500") {
		t.Errorf("after many failures, the probe reported %v", err)
	}
	at = asked.Load()
	until("the server has failed some more times", func() bool { return asked.Load() > at+5 })
	failing.Store(0)
	if err := next(); err != nil {
		t.Errorf("after a success, the probe reported %v, want nil", err)
	}
	cancel()
	<-ended
	(*probe)(nil).watch(t.Context(), nil) // without a probe it returns at once
}
