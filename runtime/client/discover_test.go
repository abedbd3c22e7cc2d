package client_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

const create = `"requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","hook":"BeforeClusterCreate"}`

func discovery(handlers string) http.HandlerFunc {
	return body(
		`{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"DiscoveryResponse","status":"Success","handlers":[` +
			handlers + `]}`)
}

func TestDiscover(t *testing.T) {
	for name, c := range map[string]struct {
		handlers string
		want     string // handlers of the status, or the error after "error: "
	}{
		"defaults":               {`{"name":"gate",` + create + `}`, "gate.ext 10 Fail"},
		"zero means the default": {`{"name":"gate","timeoutSeconds":0,` + create + `}`, "gate.ext 10 Fail"},
		"the values of the answer": {`{"name":"gate","timeoutSeconds":25,"failurePolicy":"Ignore",` + create + `}`,
			"gate.ext 25 Ignore"},
		"several handlers, in the order of the answer": {
			`{"name":"b",` + create + `},{"name":"a",` + create + `}`, "b.ext 10 Fail, a.ext 10 Fail",
		},
		"no handlers": {``, ""},
		"a duplicate": {`{"name":"a",` + create + `},{"name":"a",` + create + `}`,
			`error: handler "a": another one has the same name`},
		"an invalid name": {`{"name":"A.b",` + create + `}`, `error: handler "A.b": the name is not valid`},
		"no name":         {`{` + create + `}`, `error: handler "": the name is not valid`},
		"too long a timeout": {`{"name":"a","timeoutSeconds":31,` + create + `}`,
			"error: timeoutSeconds is 31: it must be 0 to 30"},
		"a negative timeout": {`{"name":"a","timeoutSeconds":-1,` + create + `}`, "error: timeoutSeconds is -1"},
		"an unknown policy": {`{"name":"a","failurePolicy":"Retry",` + create + `}`,
			`error: failurePolicy is "Retry": it must be Fail or Ignore`},
		"no hook": {
			`{"name":"a"}`, "error: requestHook.apiVersion is \"\": it must be group/version, requestHook.hook is empty",
		},
		"an apiVersion of three parts": {`{"name":"a","requestHook":{"apiVersion":"a/b/c","hook":"X"}}`,
			`error: requestHook.apiVersion is "a/b/c"`},
		"all errors": {`{"name":"a","timeoutSeconds":-1,` + create + `},{"name":"B",` + create + `}`,
			`error: handler "a": timeoutSeconds is -1: it must be 0 to 30; handler "B": the name`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, client.Options{})
			s := b.ca.Serve(t, discovery(c.handlers), nil)
			config := b.config("ext", s.URL)
			config.Status.Handlers = []runtimev1.ExtensionHandler{{Name: "old.ext"}}
			discovered, err := b.client.Discover(t.Context(), config)
			if want, isError := strings.CutPrefix(c.want, "error: "); isError {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error is %v, want one with %q", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := handlersText(discovered); got != c.want {
				t.Errorf("handlers are %q, want %q", got, c.want)
			}
			switch name {
			case "the values of the answer":
				t.Attr("rule", "CL-03")
				t.Attr("rule", "RC-14")
				t.Attr("rule", "RC-15")
			case "defaults":
				t.Attr("rule", "RC-14")
				t.Attr("rule", "RC-15")
				t.Attr("rule", "CL-02")
			}
			if discovered == config || config.Status.Handlers[0].Name != "old.ext" {
				t.Error("the ExtensionConfig was changed, not a copy")
			}
		})
	}
}

func handlersText(config *runtimev1.ExtensionConfig) string {
	var texts []string
	for _, h := range config.Status.Handlers {
		texts = append(texts, fmt.Sprintf("%s %d %s", h.Name, h.TimeoutSeconds, h.FailurePolicy))
	}
	return strings.Join(texts, ", ")
}

// The eighth defect seen in other clients: one hook that is not in the catalog made the whole extension unknown.
func TestDefectUnknownHooksAreToleratedAndReported(t *testing.T) {
	b := newBench(t, client.Options{})
	future := `{"name":"new","requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1beta1","hook":"BeforeClusterCreate"}},` +
		`{"name":"alien","requestHook":{"apiVersion":"example.org/v1","hook":"Anything"}},`
	now := b.ca.Serve(t, discovery(future+`{"name":"gate",`+create+`}`), nil)
	discovered, err := b.client.Discover(t.Context(), b.config("ext", now.URL))
	if err != nil {
		t.Fatal(err)
	}
	if got := handlersText(discovered); got != "gate.ext 10 Fail" {
		t.Errorf("handlers are %q", got)
	}
	condition := meta.FindStatusCondition(discovered.Status.Conditions, client.HooksKnownCondition)
	if condition == nil || condition.Status != metav1.ConditionFalse ||
		!strings.HasSuffix(condition.Message,
			"not called: alien (example.org/v1/Anything), new (hooks.runtime.cluster.x-k8s.io/v1beta1/BeforeClusterCreate)") {
		t.Errorf("condition is %+v", condition)
	}
	// When the extension no longer serves unknown hooks, the condition disappears.
	later := b.ca.Serve(t, discovery(`{"name":"gate",`+create+`}`), nil)
	discovered.Spec.ClientConfig.URL = later.URL
	if discovered, err = b.client.Discover(t.Context(), discovered); err != nil {
		t.Fatal(err)
	}
	if condition := meta.FindStatusCondition(discovered.Status.Conditions, client.HooksKnownCondition); condition != nil {
		t.Errorf("condition stayed: %+v", condition)
	}
}

func TestDiscoverFails(t *testing.T) {
	many := strings.Repeat(`{"name":"a"},`, 512) + `{"name":"a"}`
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"Failure": {body(`{"status":"Failure","message":"starting"}`),
			`ExtensionConfig "ext": it answered Failure: starting`},
		"too many handlers": {discovery(many), "it has 513 handlers: at most 512 are allowed"},
		"another kind":      {body(success), `the body is a "BeforeClusterCreateResponse"`},
		"64 MiB":            {huge, "body too large"},
		"404":               {status(404, "nothing here"), "HTTP status 404"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, client.Options{})
			s := b.ca.Serve(t, c.handler, nil)
			if _, err := b.client.Discover(t.Context(), b.config("ext", s.URL)); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestClientConfigurations(t *testing.T) {
	port := int32(8443)
	for name, c := range map[string]struct {
		config runtimev1.ClientConfig
		want   string
	}{
		"neither": {runtimev1.ClientConfig{}, "neither url nor service"},
		"both": {
			runtimev1.ClientConfig{URL: "https://x", Service: runtimev1.ServiceReference{Name: "s", Namespace: "n"}},
			"both url and service",
		},
		"plain http":       {runtimev1.ClientConfig{URL: "http://127.0.0.1"}, `the scheme "http": only https`},
		"no scheme":        {runtimev1.ClientConfig{URL: "127.0.0.1:9443/x"}, "reading spec.clientConfig.url"},
		"no host":          {runtimev1.ClientConfig{URL: "https:///path"}, "no host"},
		"user information": {runtimev1.ClientConfig{URL: "https://me:secret@127.0.0.1"}, "must not have user information"},
		"a query": {runtimev1.ClientConfig{URL: "https://127.0.0.1?x=y"},
			"must not have user information, a query"},
		"an invalid CA bundle": {runtimev1.ClientConfig{URL: "https://127.0.0.1", CABundle: []byte("junk")},
			"no certificate in PEM form"},
		"a service whose name can't be looked up": {
			runtimev1.ClientConfig{Service: runtimev1.ServiceReference{Name: "s", Namespace: "n", Port: &port}}, "s.n.svc",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, client.Options{})
			config := &runtimev1.ExtensionConfig{
				ObjectMeta: metav1.ObjectMeta{Name: "ext"}, Spec: runtimev1.ExtensionConfigSpec{ClientConfig: c.config},
			}
			_, err := b.client.Discover(t.Context(), config)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error is %v, want one with %q", err, c.want)
			}
			switch name {
			case "neither", "both":
				t.Attr("rule", "RC-04")
			case "plain http", "no scheme", "no host", "user information", "a query":
				t.Attr("rule", "RC-05")
			}
		})
	}
}

func TestPathPrefix(t *testing.T) {
	b := newBench(t, client.Options{})
	h, err := server.New(server.Options{Prefix: "/ext/v2"}, server.Handle(hook.BeforeClusterCreate, "h", says("found")))
	if err != nil {
		t.Fatal(err)
	}
	s := b.ca.Serve(t, h, nil)
	discovered, err := b.client.Discover(t.Context(), b.config("ext", s.URL+"/ext/v2/"))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.client.Register(discovered); err != nil {
		t.Fatal(err)
	}
	response, err := b.create(t.Context())
	if err != nil || response.Message != "found" || response.Status != runtimehooksv1.ResponseStatusSuccess {
		t.Errorf("got %+v, %v", response, err)
	}
}
