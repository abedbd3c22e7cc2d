package report

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

// api accepts reports after a set number of failures.
type api struct {
	mu       sync.Mutex
	failures int
	got      []v1beta2.AgentReport
}

func (a *api) apply(_ context.Context, r *v1beta2.AgentReport) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failures > 0 {
		a.failures--
		return errors.New("asked to fail")
	}
	a.got = append(a.got, *r)
	return nil
}

// step returns a change of a report.
func step(name string) func(*v1beta2.AgentReport) {
	return func(r *v1beta2.AgentReport) { r.Bootstrap = &v1beta2.BootstrapReport{ProviderID: "p", Step: name} }
}

// TestRun: each change is sent once, results at once and progress after a pause; what the API has lost is sent again.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{failures: 3}
		r := New(a.apply, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.Run(ctx) }()
		sent := func(want int, last string) {
			t.Helper()
			synctest.Wait()
			a.mu.Lock()
			defer a.mu.Unlock()
			if len(a.got) != want || a.got[want-1].Bootstrap.Step != last {
				t.Fatalf("sent: %+v; want %d, the last with step %s", a.got, want, last)
			}
		}
		r.Update(true, step("a"))
		time.Sleep(time.Minute) // the API fails, and the report is repeated
		sent(1, "a")
		r.Update(true, step("a"))
		time.Sleep(time.Minute)
		sent(1, "a") // nothing has changed
		r.Update(true, step("b"))
		sent(2, "b")
		r.Update(false, step("c"))
		r.Update(false, step("d"))
		sent(2, "b")
		time.Sleep(reportPause)
		sent(3, "d")
		report := r.Get()
		r.Seen(&report)
		time.Sleep(time.Minute)
		sent(3, "d")
		r.Seen(nil) // the host was moved without its status
		time.Sleep(repeatPause)
		sent(4, "d")
		stop()
		<-ended
	})
}

func TestCut(t *testing.T) {
	for s, want := range map[string]string{"": "", "abc": "abc", "abcd": "abc"} {
		if got := Cut(s, 3); got != want {
			t.Errorf("%q becomes %q", s, got)
		}
	}
}
