package conformance_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/runtime/conformance"
	"github.com/capstan-dev/capstan/runtime/internal/testtls"
)

// The bytes of an answer are compared with the OpenAPI document, which also finds mistakes that Go's decoder accepts.
func TestAnswersAreComparedWithTheDocument(t *testing.T) {
	const head = `"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"%sResponse","status":"Success"`
	for name, c := range map[string]struct {
		hook, body string
		want       conformance.Verdict
		says       string
	}{
		"all is well":           {"BeforeClusterCreate", `,"message":"fine","retryAfterSeconds":0`, conformance.Passed, ""},
		"nothing to wait for":   {"BeforeClusterCreate", ``, conformance.Passed, ""},
		"a list that is null":   {"GeneratePatches", `,"items":null`, conformance.Passed, ""},
		"a list that is absent": {"GeneratePatches", ``, conformance.Passed, ""},
		"an invalid patch type": {
			"GeneratePatches", `,"items":[{"uid":"1","patchType":"YAML","patch":"e30="}]`, conformance.Failed,
			`items[0].patchType is "YAML"`,
		},
		"a patch without a uid": {
			"GeneratePatches", `,"items":[{"patchType":"JSONPatch","patch":"W10="}]`, conformance.Failed,
			"items[0].uid is missing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "application/json")
				if strings.HasSuffix(r.URL.Path, "/discovery") {
					fmt.Fprintf(w, `{`+head+`,"handlers":[{"name":"h","requestHook":`+
						`{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","hook":%q}}]}`, "Discovery", c.hook)
					return
				}
				fmt.Fprintf(w, `{`+head+`%s}`, c.hook, c.body)
			})
			ca := testtls.NewAuthority(t)
			report, err := conformance.Run(t.Context(), conformance.Target{
				URL: ca.Serve(t, server, nil).URL, CA: ca.PEM, Only: []string{"as-described"},
			})
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			if err := report.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			if got := verdicts(report)["as-described"]; got != c.want || !strings.Contains(text.String(), c.says) {
				t.Errorf("%s, want %s with %q\n%s", got, c.want, c.says, text.String())
			}
			t.Attr("rule", "RX-03")
		})
	}
}
