package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/conformance"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/testtls"
	"github.com/capstan-dev/capstan/runtime/server"
)

// crowd is an extension with many handlers. It counts the handlers that were called.
type crowd struct {
	handlers int
	pause    time.Duration
	called   atomic.Int64
}

func (c *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	const answer = `{"kind":"%s","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","status":"Success"`
	switch {
	case strings.HasSuffix(r.URL.Path, "/discovery"):
		var list strings.Builder
		for i := range c.handlers {
			if i > 0 {
				list.WriteByte(',')
			}
			fmt.Fprintf(&list, `{"name":"create-%05d","requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1",`+
				`"hook":"BeforeClusterCreate"}}`, i)
		}
		fmt.Fprintf(w, answer+`,"handlers":[%s]}`, "DiscoveryResponse", list.String())
	case strings.Contains(r.URL.Path, "/create-"):
		c.called.Add(1)
		select {
		case <-time.After(c.pause):
		case <-r.Context().Done():
		}
		fmt.Fprintf(w, answer+"}", "BeforeClusterCreateResponse")
	default:
		http.NotFound(w, r)
	}
}

func textOf(t *testing.T, r *conformance.Report) string {
	t.Helper()
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// For an extension with 10,000 handlers, the report is finite, has a bounded size, and says what was not checked.
func TestTooManyHandlers(t *testing.T) {
	many := &crowd{handlers: 10_000}
	report := check(t, many, "answers", "discovery-entries")
	if got := verdicts(report)["discovery-entries"]; got != conformance.Failed {
		t.Errorf("discovery of 10,000 handlers %s", got)
	}
	if many.called.Load() != 512 || len(report.Results) > 600 {
		t.Errorf("%d handlers were called, there are %d results", many.called.Load(), len(report.Results))
	}
	if report.OK(false) || report.Left == nil || report.Left.Handlers != 9_488 || report.Left.Names[0] != "create-00512" {
		t.Fatalf("left out: %v", report.Left)
	}
	if text := textOf(t, report); !strings.Contains(text, "Not complete: an ExtensionConfig lists at most 512 handlers") ||
		!strings.Contains(text, "and 9478 more") {
		t.Errorf("the report ends in %s", text[max(0, len(text)-600):])
	}
}

// When the time for all checks is over, every form of the report says what was not checked, without blaming the
// extension.
func TestTheTimeForAllChecks(t *testing.T) {
	ca := testtls.NewAuthority(t)
	slow := &crowd{handlers: 100, pause: 50 * time.Millisecond}
	start := time.Now()
	report, err := conformance.Run(t.Context(), conformance.Target{
		URL: ca.Serve(t, slow, nil).URL, CA: ca.PEM, Only: []string{"answers"}, Timeout: 500 * time.Millisecond,
	})
	if err != nil || time.Since(start) > 10*time.Second {
		t.Fatalf("after %s: %v", time.Since(start), err)
	}
	if report.OK(false) || report.Left == nil || report.Left.Handlers < 80 || report.Count(conformance.Failed) != 0 {
		t.Errorf("%d failed, left out: %v", report.Count(conformance.Failed), report.Left)
	}
	var asJSON, junit bytes.Buffer
	if err := errors.Join(report.WriteJSON(&asJSON), report.WriteJUnit(&junit)); err != nil {
		t.Fatal(err)
	}
	var read conformance.Report
	if err := json.Unmarshal(asJSON.Bytes(), &read); err != nil || read.Left == nil || read.OK(false) {
		t.Errorf("JSON: %v, %v", read.Left, err)
	}
	if !strings.Contains(junit.String(), `failures="1"`) || !strings.Contains(junit.String(), `name="complete"`) {
		t.Errorf("JUnit: %.400s", junit.String())
	}
	if text := textOf(t, report); !strings.Contains(text, "the time for all checks, 500ms, ran out; not checked") {
		t.Errorf("the report is %s", text)
	}
}

// If the checks are stopped, their results so far are returned.
func TestEndedChecksLeaveAReport(t *testing.T) {
	ca := testtls.NewAuthority(t)
	slow := &crowd{handlers: 100, pause: 50 * time.Millisecond}
	url := ca.Serve(t, slow, nil).URL
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	report, err := conformance.Run(ctx, conformance.Target{URL: url, CA: ca.PEM, Only: []string{"answers"}})
	if !errors.Is(err, context.DeadlineExceeded) || report == nil || report.Left == nil || report.Left.Handlers < 80 {
		t.Errorf("got %+v, %v", report, err)
	}
}

// The findings of one check are bounded, and a warning does not soften a failure.
func TestProblemsAreBounded(t *testing.T) {
	item := func(uid, patch string) runtimehooksv1.GeneratePatchesResponseItem {
		return runtimehooksv1.GeneratePatchesResponseItem{
			UID: types.UID(uid), PatchType: runtimehooksv1.JSONMergePatchType, Patch: []byte(patch),
		}
	}
	var foreign []runtimehooksv1.GeneratePatchesResponseItem
	for range 1_000 {
		foreign = append(foreign, item(strings.Repeat("x", 1_000), "{}"))
	}
	nothing := item("1", `{"metadata":{"name":"sample"}}`) // a warning
	for name, items := range map[string][]runtimehooksv1.GeneratePatchesResponseItem{
		"a thousand failures":              foreign,
		"a warning before the failures":    append([]runtimehooksv1.GeneratePatchesResponseItem{nothing}, foreign...),
		"a warning after a failure":        {foreign[0], nothing},
		"many warnings before the failure": append(repeated(nothing, 50), foreign[0]),
		"more operations than a caller accepts": repeated(runtimehooksv1.GeneratePatchesResponseItem{
			UID: "1", PatchType: runtimehooksv1.JSONPatchType,
			Patch: []byte(`[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`),
		}, 2_001),
	} {
		t.Run(name, func(t *testing.T) {
			s, err := server.New(server.Options{}, server.Handle(hook.GeneratePatches, "h",
				func(_ context.Context, _ *runtimehooksv1.GeneratePatchesRequest, r *runtimehooksv1.GeneratePatchesResponse) error {
					r.Items = items
					return nil
				}))
			if err != nil {
				t.Fatal(err)
			}
			report := check(t, s, "content")
			if got := verdicts(report)["content"]; got != conformance.Failed {
				t.Errorf("the check %s", got)
			}
			if text := textOf(t, report); len(text) > 16<<10 {
				t.Errorf("the report has %d bytes", len(text))
			}
		})
	}
}

func repeated[T any](one T, times int) []T {
	all := make([]T, 0, times)
	for range times {
		all = append(all, one)
	}
	return all
}
