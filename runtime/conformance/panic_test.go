package conformance_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/conformance"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/testtls"
	"github.com/capstan-dev/capstan/runtime/sample"
)

// decoded counts how often a fragileResponse was decoded.
var decoded atomic.Int64

// fragileResponse panics when it is decoded, but not the first few times.
type fragileResponse struct {
	runtimehooksv1.BeforeClusterCreateResponse
}

// DeepCopyObject implements runtime.Object.
func (r *fragileResponse) DeepCopyObject() runtime.Object { return r }

// UnmarshalJSON implements json.Unmarshaler.
func (r *fragileResponse) UnmarshalJSON(data []byte) error {
	if decoded.Add(1) > 9 { // within the check "at-once", in a goroutine of its own
		panic("nobody thought of this answer")
	}
	return json.Unmarshal(data, &r.BeforeClusterCreateResponse)
}

// A check that panics has failed, whether it panics in the run's goroutine or in its own. Its stack is in every form
// of the report, and all other checks still run.
func TestACheckThatPanicsHasFailed(t *testing.T) {
	gv := runtimehooksv1.GroupVersion
	catalog, err := hook.NewCatalog(hook.Define[createRequest, fragileResponse](gv, "BeforeClusterCreate"),
		hook.AfterControlPlaneInitialized)
	if err != nil {
		t.Fatal(err)
	}
	ca := testtls.NewAuthority(t)
	s := ca.Serve(t, good(t), nil)
	for name, c := range map[string]struct {
		target conformance.Target
		check  string
		what   string // in the stack
	}{
		"a panic in a request for the extension": {
			conformance.Target{Request: func(d *hook.Descriptor) (runtime.Object, error) {
				if d.ID.Name == "AfterControlPlaneInitialized" {
					panic("nobody thought of this request")
				}
				return sample.Request(d, nil)
			}}, "discovery", "checkDiscovery",
		},
		"a panic in another goroutine": {conformance.Target{Catalog: catalog}, "at-once", "checkConcurrent"},
	} {
		t.Run(name, func(t *testing.T) {
			decoded.Store(0)
			c.target.URL, c.target.CA, c.target.Repeat = s.URL, ca.PEM, 2
			report, err := conformance.Run(t.Context(), c.target)
			if err != nil {
				t.Fatal(err)
			}
			var text, asJSON, junit bytes.Buffer
			if err := errors.Join(report.WriteText(&text), report.WriteJSON(&asJSON), report.WriteJUnit(&junit)); err != nil {
				t.Fatal(err)
			}
			found := false
			for _, r := range report.Results {
				if r.Name != c.check || r.Verdict != conformance.Failed {
					continue
				}
				found = true
				if !strings.Contains(r.Message, "panicked: nobody thought of this") || !strings.Contains(r.Stack, c.what) {
					t.Errorf("message %q, stack %s", r.Message, r.Stack)
				}
			}
			if last := report.Results[len(report.Results)-1]; !found || last.Name != "survives" ||
				last.Verdict != conformance.Passed {
				t.Errorf("found %t, last %+v\n%s", found, last, text.String())
			}
			for form, data := range map[string]string{"text": text.String(), "JSON": asJSON.String(), "JUnit": junit.String()} {
				if !strings.Contains(data, c.what) {
					t.Errorf("the report as %s has no stack: %s", form, data)
				}
			}
		})
	}
}
