package extension

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/extension/part/parttest"
	"github.com/capstan-dev/capstan/runtime/conformance"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/sample"
)

// The extension that we ship passes every check that can be made from outside, for each of its handlers. There is one
// warning: a handler may take longer than ten seconds.
func TestExtensionConforms(t *testing.T) {
	handler, err := New(Options{Reader: parttest.NewWorld(2)})
	if err != nil {
		t.Fatal(err)
	}
	defer handler.Close()
	report, err := hooktest.StartHandler(t, handler).Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	passed := map[string]int{}
	for _, result := range report.Results {
		switch {
		case result.Verdict == conformance.Passed:
			passed[result.Name]++
		case result.Verdict == conformance.Failed, result.Verdict == conformance.Warned && result.Name != "discovery-entries":
			t.Errorf("the extension does not conform:\n%s", text.String())
		}
	}
	all := passed["answers"]
	if all < 10 || passed["as-described"] != all {
		t.Errorf("of %d handlers, %d answer as the OpenAPI document says", all, passed["as-described"])
	}
	t.Attr("rule", "RX-03")
	if passed["quick"] != all {
		t.Errorf("of %d handlers, %d answer soon", all, passed["quick"])
	}
	t.Attr("rule", "RX-21")
	if passed["same-again"] != all || passed["at-once"] != all {
		t.Errorf("of %d handlers, %d answer the same again, %d at once", all, passed["same-again"], passed["at-once"])
	}
	t.Attr("rule", "RX-25")
	t.Attr("rule", "RX-27")
	if passed["malformed"] != all || passed["survives"] != 1 {
		t.Errorf("of %d handlers, %d refuse malformed requests; the extension survives: %d", all, passed["malformed"],
			passed["survives"])
	}
	t.Attr("rule", "RX-22")
	if passed["waits-honestly"] != all {
		t.Errorf("of %d handlers, %d wait as the contract allows", all, passed["waits-honestly"])
	}
}

// Texts that end up in conditions are the same each time and contain neither secrets nor texts of others, even if the
// error of the API server contains a password and the time.
func TestErrorMessagesAreStableAndHoldNoSecrets(t *testing.T) {
	var calls atomic.Int32
	handler, err := New(Options{Reader: failing{parttest.NewWorld(2), func() error {
		calls.Add(1)
		return fmt.Errorf("Get \"https://admin:hunter2@10.0.0.%d:6443/api\": dial tcp 10.0.0.1:%d: i/o timeout at %s",
			calls.Load(), 40000+calls.Load(), time.Now())
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer handler.Close()
	first := map[string]string{}
	handlers := hooktest.StartHandler(t, handler).Config.Status.Handlers
	for range 10 {
		for _, h := range handlers {
			name := strings.TrimSuffix(h.Name, "."+hooktest.Name)
			said := messageOf(t, handler, h.RequestHook.Hook, name)
			if strings.Contains(said, "hunter2") || strings.Contains(said, "10.0.0.") || strings.Contains(said, "i/o timeout") {
				t.Errorf("%s says %q", name, said)
			}
			if before, ok := first[name]; ok && before != said {
				t.Errorf("%s said %q and says %q", name, before, said)
			}
			first[name] = said
		}
	}
	if calls.Load() == 0 || len(first) < 10 {
		t.Errorf("%d handlers were asked, the API server failed %d times", len(first), calls.Load())
	}
	t.Attr("rule", "RX-28")
}

// messageOf calls a handler with a sample, and returns the message of its answer.
func messageOf(t *testing.T, handler http.Handler, of, name string) string {
	t.Helper()
	d, ok := hook.ClusterAPI().Get(hook.ID{
		Group: runtimehooksv1.GroupVersion.Group, Version: runtimehooksv1.GroupVersion.Version, Name: of,
	})
	if !ok {
		t.Fatalf("there is no hook %s", of)
	}
	request, err := sample.Request(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, d.ID.Path(name),
		bytes.NewReader(body)))
	var answer struct{ Message string }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%s answers %d %s, %v", name, w.Code, w.Body, err)
	}
	return answer.Message
}

// failing is a reader that fails with a different text each time.
type failing struct {
	client.Reader
	fail func() error
}

func (f failing) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return f.fail()
}

func (f failing) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return f.fail()
}
