package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/conformance"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/testtls"
	"github.com/capstan-dev/capstan/runtime/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	createRequest  = runtimehooksv1.BeforeClusterCreateRequest
	createResponse = runtimehooksv1.BeforeClusterCreateResponse
)

// check runs checks against a handler over TLS; all checks if none is named.
func check(t *testing.T, handler http.Handler, only ...string) *conformance.Report {
	t.Helper()
	ca := testtls.NewAuthority(t)
	report, err := conformance.Run(t.Context(), conformance.Target{
		URL: ca.Serve(t, handler, nil).URL, CA: ca.PEM, Only: only,
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// verdicts returns the outcome of each check, the worst over all handlers.
func verdicts(r *conformance.Report) map[string]conformance.Verdict {
	order := []conformance.Verdict{conformance.Skipped, conformance.Passed, conformance.Warned, conformance.Failed}
	worst := map[string]conformance.Verdict{}
	for _, result := range r.Results {
		if old, ok := worst[result.Name]; !ok || slices.Index(order, result.Verdict) > slices.Index(order, old) {
			worst[result.Name] = result.Verdict
		}
	}
	return worst
}

func good(t *testing.T) http.Handler {
	t.Helper()
	s, err := server.New(server.Options{},
		server.Handle(hook.BeforeClusterCreate, "create", func(context.Context, *createRequest, *createResponse) error {
			return server.Wait(time.Second, "not yet")
		}),
		server.Handle(hook.AfterControlPlaneInitialized, "initialized",
			func(context.Context, *runtimehooksv1.AfterControlPlaneInitializedRequest,
				*runtimehooksv1.AfterControlPlaneInitializedResponse) error {
				return nil
			}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Our own server passes every check.
func TestOurServerConforms(t *testing.T) {
	report := check(t, good(t))
	if !report.OK(true) {
		var text strings.Builder
		_ = report.WriteText(&text)
		t.Error(text.String())
	}
	for name, verdict := range verdicts(report) {
		if verdict != conformance.Passed && name != "content" { // for hooks that have content
			t.Errorf("check %s: %s", name, verdict)
		}
		switch name {
		case "https":
			t.Attr("rule", "RX-01")
		case "as-described":
			t.Attr("rule", "RX-03")
		case "quick":
			t.Attr("rule", "RX-21")
		case "same-again":
			t.Attr("rule", "RX-25")
			t.Attr("rule", "RX-27")
		}
	}
}

// Each check finds the mistake that it is for: this tests the tests (T-RX-01 to T-RX-09).
func TestChecksFindMistakes(t *testing.T) {
	var calls atomic.Int64
	discovery := func(entries string) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.HasSuffix(r.URL.Path, "/discovery") {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w,
					`{"kind":"DiscoveryResponse","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","status":"Success","handlers":[%s]}`, entries)
				return
			}
			next.ServeHTTP(w, r)
		}
	}
	entry := func(name, hook, more string) string {
		return fmt.Sprintf(`{"name":%q,"requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","hook":%q}%s}`,
			name, hook, more)
	}
	create := entry("create", "BeforeClusterCreate", "")
	for name, c := range map[string]struct {
		spoil func(http.ResponseWriter, *http.Request, http.Handler)
		check string
		want  conformance.Verdict
	}{
		"no discovery": {func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			http.NotFound(w, r)
		}, "discovery", conformance.Failed},
		"two handlers of one name (RX-16)": {discovery(create + "," + create), "discovery-entries", conformance.Failed},
		"a name that is not a DNS label (RX-16)": {
			discovery(entry("A_b", "BeforeClusterCreate", "")), "discovery-entries",
			conformance.Failed,
		},
		"a timeout of 31 seconds (RX-18)": {discovery(entry("create", "BeforeClusterCreate", `,"timeoutSeconds":31`)),
			"discovery-entries", conformance.Failed},
		"a timeout of 20 seconds": {discovery(entry("create", "BeforeClusterCreate", `,"timeoutSeconds":20`)),
			"discovery-entries", conformance.Warned},
		"an invalid policy (RX-19)": {discovery(entry("create", "BeforeClusterCreate", `,"failurePolicy":"Maybe"`)),
			"discovery-entries", conformance.Failed},
		"a hook that does not exist (RX-17)": {discovery(entry("create", "BeforeLunch", "")), "discovery-known",
			conformance.Warned},
		"discovery that changes": {func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			discovery(entry(fmt.Sprintf("create-%d", calls.Add(1)), "BeforeClusterCreate", ""))(w, r, next)
		}, "discovery-stable", conformance.Failed},
		"every path is answered (RX-06)": {func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			r.URL.Path = strings.TrimSuffix(r.URL.Path, "/there-is-no-such-handler")
			next.ServeHTTP(w, r)
		}, "unknown-path", conformance.Failed},
		"answers that change (RX-27)": {rewrite(func(body string) string {
			return strings.Replace(body, "not yet", fmt.Sprint("not yet ", calls.Add(1)), 1)
		}), "same-again", conformance.Failed},
		"another kind (RX-07)": {
			rewrite(func(body string) string { return strings.Replace(body, "BeforeClusterCreate", "Before", 1) }), "answers",
			conformance.Failed,
		},
		"no kind": {
			rewrite(func(string) string { return `{"status":"Success","retryAfterSeconds":0}` }), "answers", conformance.Warned,
		},
		"an invalid status (RX-13)": {
			rewrite(func(body string) string { return strings.Replace(body, "Success", "Maybe", 1) }), "answers",
			conformance.Failed,
		},
		"no status":      {rewrite(func(string) string { return `{"retryAfterSeconds":0}` }), "answers", conformance.Failed},
		"trailing bytes": {rewrite(func(body string) string { return body + "{}" }), "answers", conformance.Failed},
		"Failure without a message (RX-14)": {rewrite(func(body string) string {
			return strings.NewReplacer(`"Success"`, `"Failure"`, `"message":"not yet",`, "").Replace(body)
		}), "answers", conformance.Failed},
		"a field too many (RX-03)": {
			rewrite(func(body string) string { return strings.Replace(body, "{", `{"more":1,`, 1) }), "known-fields",
			conformance.Warned,
		},
		"a negative wait (RX-23)": {
			rewrite(func(body string) string { return strings.Replace(body, `Seconds":1`, `Seconds":-1`, 1) }), "waits-honestly",
			conformance.Failed,
		},
		"a wait of a day": {
			rewrite(func(body string) string { return strings.Replace(body, `Seconds":1`, `Seconds":86400`, 1) }),
			"waits-honestly", conformance.Warned,
		},
		"GET is answered (RX-04)":            {asPost, "post-only", conformance.Warned},
		"any body is accepted":               {emptyBody, "malformed", conformance.Failed},
		"a huge body is accepted (RX-43)":    {emptyBody, "oversized", conformance.Warned},
		"an older Cluster is refused (D-30)": {noOlderCluster, "older-cluster", conformance.Warned},
		"HTTP status 500 (RX-44)": {
			func(w http.ResponseWriter, r *http.Request, next http.Handler) { fail500(w, r, next) }, "answers",
			conformance.Failed,
		},
		"a server that fails under many parallel calls": {(&limit{most: 4}).spoil, "at-once", conformance.Failed},
		"a server that never recovers from a huge body": {(&fragile{}).spoil, "survives", conformance.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			only := []string{c.check}
			if c.check == "survives" {
				only = append(only, "oversized")
			}
			report := check(t, bad(good(t), c.spoil), only...)
			if got := verdicts(report)[c.check]; got != c.want {
				var text strings.Builder
				_ = report.WriteText(&text)
				t.Errorf("check %s: %s, want %s\n%s", c.check, got, c.want, text.String())
			}
			switch name {
			case "no discovery":
				t.Attr("rule", "RX-02")
			case "GET is answered (RX-04)":
				t.Attr("rule", "RX-04")
			case "every path is answered (RX-06)":
				t.Attr("rule", "RX-06")
			case "another kind (RX-07)":
				t.Attr("rule", "RX-07")
			case "an invalid status (RX-13)":
				t.Attr("rule", "RX-13")
			case "Failure without a message (RX-14)":
				t.Attr("rule", "RX-14")
			case "two handlers of one name (RX-16)", "a name that is not a DNS label (RX-16)":
				t.Attr("rule", "RX-16")
			case "a hook that does not exist (RX-17)":
				t.Attr("rule", "RX-17")
			case "answers that change (RX-27)":
				t.Attr("rule", "RX-27")
			case "a huge body is accepted (RX-43)":
				t.Attr("rule", "RX-43")
			case "HTTP status 500 (RX-44)":
				t.Attr("rule", "RX-44")
			}
		})
	}
}

// An unreachable extension yields a report, an invalid URL an error (RC-05).
func TestTargets(t *testing.T) {
	ca := testtls.NewAuthority(t)
	s := ca.Serve(t, good(t), nil)
	stranger := testtls.NewAuthority(t)
	report, err := conformance.Run(t.Context(), conformance.Target{URL: s.URL, CA: stranger.PEM})
	if err != nil || verdicts(report)["https"] != conformance.Failed {
		t.Errorf("with another CA: %+v, %v", report, err)
	}
	for name, target := range map[string]conformance.Target{
		"no https":         {URL: "http://127.0.0.1:1"},
		"no host":          {URL: "https://"},
		"credentials":      {URL: "https://a:b@127.0.0.1:1"},
		"a query":          {URL: "https://127.0.0.1:1?a=b"},
		"an invalid CA":    {URL: "https://127.0.0.1:1", CA: []byte("junk")},
		"too few repeats":  {URL: "https://127.0.0.1:1", Repeat: 1},
		"an unknown check": {URL: "https://127.0.0.1:1", Only: []string{"luck"}},
	} {
		if _, err := conformance.Run(t.Context(), target); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := conformance.Run(ctx, conformance.Target{URL: s.URL, CA: ca.PEM}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}

func TestReports(t *testing.T) {
	report := check(t, bad(good(t), fail500), "quick", "https")
	var text, asJSON, junit bytes.Buffer
	if err := errors.Join(report.WriteText(&text), report.WriteJSON(&asJSON), report.WriteJUnit(&junit)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "failed   answers            RX-03") ||
		!strings.Contains(text.String(), "HTTP status 500") {
		t.Errorf("the text is %s", text.String())
	}
	var decoded conformance.Report
	if err := json.Unmarshal(asJSON.Bytes(), &decoded); err != nil || len(decoded.Results) != len(report.Results) ||
		decoded.OK(false) {
		t.Errorf("the JSON has %d results, %v", len(decoded.Results), err)
	}
	var suite struct {
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Name    string `xml:"name,attr"`
			Failure *struct {
				Message string `xml:"message,attr"`
			} `xml:"failure"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal(junit.Bytes(), &suite); err != nil || len(suite.Cases) != len(report.Results) ||
		suite.Failures != report.Count(conformance.Failed) {
		t.Errorf("the JUnit file is %+v, %v", suite, err)
	}
}

// Every check names rules, and no two have the same name.
func TestChecksAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range conformance.Checks() {
		if seen[c.Name] || len(c.Rules) == 0 || c.Doc == "" {
			t.Errorf("check %+v", c)
		}
		seen[c.Name] = true
	}
}

// The content of answers of topology mutation and in-place update hooks is checked too.
func TestContentIsChecked(t *testing.T) {
	patches := func(items ...runtimehooksv1.GeneratePatchesResponseItem) server.Handler {
		return server.Handle(hook.GeneratePatches, "h",
			func(_ context.Context, _ *runtimehooksv1.GeneratePatchesRequest,
				response *runtimehooksv1.GeneratePatchesResponse) error {
				response.Items = items
				return nil
			})
	}
	item := func(uid, patch string) runtimehooksv1.GeneratePatchesResponseItem {
		return runtimehooksv1.GeneratePatchesResponseItem{
			UID: types.UID(uid), PatchType: runtimehooksv1.JSONMergePatchType, Patch: []byte(patch),
		}
	}
	plan := func(controlPlane, workers []string) server.Handler {
		return server.Handle(hook.GenerateUpgradePlan, "h",
			func(_ context.Context, _ *runtimehooksv1.GenerateUpgradePlanRequest,
				response *runtimehooksv1.GenerateUpgradePlanResponse) error {
				for _, v := range controlPlane {
					response.ControlPlaneUpgrades = append(response.ControlPlaneUpgrades, runtimehooksv1.UpgradeStep{Version: v})
				}
				for _, v := range workers {
					response.WorkersUpgrades = append(response.WorkersUpgrades, runtimehooksv1.UpgradeStep{Version: v})
				}
				return nil
			})
	}
	variables := func(variables ...clusterv1.ClusterClassVariable) server.Handler {
		return server.Handle(hook.DiscoverVariables, "h",
			func(_ context.Context, _ *runtimehooksv1.DiscoverVariablesRequest,
				response *runtimehooksv1.DiscoverVariablesResponse) error {
				response.Variables = variables
				return nil
			})
	}
	text := clusterv1.VariableSchema{OpenAPIV3Schema: clusterv1.JSONSchemaProps{Type: "string"}}
	inPlace := func(patch string) server.Handler {
		return server.Handle(hook.CanUpdateMachine, "h",
			func(_ context.Context, _ *runtimehooksv1.CanUpdateMachineRequest,
				response *runtimehooksv1.CanUpdateMachineResponse) error {
				response.MachinePatch = runtimehooksv1.Patch{PatchType: runtimehooksv1.JSONMergePatchType, Patch: []byte(patch)}
				return nil
			})
	}
	inPlaceSet := func(patch string) server.Handler {
		return server.Handle(hook.CanUpdateMachineSet, "h",
			func(_ context.Context, _ *runtimehooksv1.CanUpdateMachineSetRequest,
				response *runtimehooksv1.CanUpdateMachineSetResponse) error {
				response.InfrastructureMachineTemplatePatch = runtimehooksv1.Patch{
					PatchType: runtimehooksv1.JSONMergePatchType, Patch: []byte(patch),
				}
				return nil
			})
	}
	for name, c := range map[string]struct {
		handler server.Handler
		want    conformance.Verdict
	}{
		"a good patch": {patches(item("1", `{"spec":{"template":{"spec":{"a":1}}}}`)),
			conformance.Passed},
		"no patch":                      {patches(), conformance.Passed},
		"a patch for an unknown object": {patches(item("9", `{}`)), conformance.Failed},
		"a patch that does not apply":   {patches(item("1", `[`)), conformance.Failed},
		"a patch of the name":           {patches(item("1", `{"metadata":{"name":"x"}}`)), conformance.Failed},
		"a patch that changes nothing":  {patches(item("1", `{"metadata":{"name":"sample"}}`)), conformance.Warned},
		"a good plan": {plan([]string{"v1.36.0", "v1.36.3"}, []string{"v1.36.3"}),
			conformance.Passed},
		"no plan":                        {plan(nil, nil), conformance.Failed},
		"a plan that goes down":          {plan([]string{"v1.35.0", "v1.36.3"}, nil), conformance.Failed},
		"a plan that ends early":         {plan([]string{"v1.36.0"}, nil), conformance.Failed},
		"a plan that leaves out a minor": {plan([]string{"v1.37.0", "v1.36.3"}, nil), conformance.Failed},
		"a plan of invalid versions":     {plan([]string{"new"}, nil), conformance.Failed},
		"workers with a version that the control plane skips": {
			plan([]string{"v1.36.3"}, []string{"v1.36.1", "v1.36.3"}),
			conformance.Failed,
		},
		"workers that end early": {plan([]string{"v1.36.0", "v1.36.3"}, []string{"v1.36.0"}),
			conformance.Failed},
		"good variables": {variables(clusterv1.ClusterClassVariable{Name: "a", Schema: text}),
			conformance.Passed},
		"a variable twice": {
			variables(clusterv1.ClusterClassVariable{Name: "a", Schema: text},
				clusterv1.ClusterClassVariable{Name: "a", Schema: text}), conformance.Failed,
		},
		"a variable without a schema": {variables(clusterv1.ClusterClassVariable{Name: "a"}), conformance.Failed},
		"a variable called builtin": {variables(clusterv1.ClusterClassVariable{Name: "builtin", Schema: text}),
			conformance.Failed},
		"a good change in place":                {inPlace(`{"spec":{"version":"v1.36.3"}}`), conformance.Passed},
		"a change of the name in place":         {inPlace(`{"metadata":{"name":"x"}}`), conformance.Failed},
		"a change in place that does not apply": {inPlace(`[`), conformance.Failed},
		"a good change of a set": {inPlaceSet(`{"spec":{"template":{"spec":{"memory":1}}}}`),
			conformance.Passed},
		"a change of a set's kind": {inPlaceSet(`{"kind":"x"}`), conformance.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := server.New(server.Options{}, c.handler)
			if err != nil {
				t.Fatal(err)
			}
			report := check(t, s, "content")
			if got := verdicts(report)["content"]; got != c.want {
				t.Errorf("%s, want %s: %+v", got, c.want, report.Results[len(report.Results)-1])
			}
			switch name {
			case "a patch for an unknown object", "a patch that does not apply":
				t.Attr("rule", "UH-01")
			case "a patch of the name":
				t.Attr("rule", "UH-02")
			case "a patch that changes nothing":
				t.Attr("rule", "UH-03")
			case "a variable twice", "a variable without a schema":
				t.Attr("rule", "UH-05")
			case "a plan that goes down", "a plan that leaves out a minor", "workers that end early":
				t.Attr("rule", "UH-06")
			case "a change of the name in place", "a change of a set's kind":
				t.Attr("rule", "UH-07")
			}
		})
	}
}
