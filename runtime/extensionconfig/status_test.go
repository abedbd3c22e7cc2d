package extensionconfig_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/extensionconfig"
	"github.com/capstan-dev/capstan/runtime/registry"
)

// discovers serves only Discovery, with these handlers.
func discovers(handlers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"status":"Success","handlers":[`+strings.Join(handlers, ",")+`]}`)
	}
}

func handler(name, more string) string {
	return fmt.Sprintf(`{"name":%q,"requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1",`+
		`"hook":"BeforeClusterCreate"}%s}`, name, more)
}

// The status in the API server has what Discovery returned: each handler's timeout, or the default, and its failure
// policy. An administrator's overrides are in effect, and a condition names the handlers that they are for.
func TestStatusHasTimeoutsAndPolicies(t *testing.T) {
	w := newWorld(t, nil)
	w.start(nil)
	w.create("ext", w.ca.Serve(t, discovers(
		handler("a-default", ""),
		handler("b-zero", `,"timeoutSeconds":0`),
		handler(
			"c-longest",
			`,"timeoutSeconds":30,"failurePolicy":"Ignore"`,
		),
		handler("d-fail", `,"timeoutSeconds":3,"failurePolicy":"Fail"`),
	), nil).URL, nil)
	w.condition("ext", "Discovered", metav1.ConditionTrue, "")
	var got []string
	for _, h := range w.get("ext").Status.Handlers {
		got = append(got, fmt.Sprintf("%s %d %s", h.Name, h.TimeoutSeconds, h.FailurePolicy))
	}
	want := []string{"a-default.ext 10 Fail", "b-zero.ext 10 Fail", "c-longest.ext 30 Ignore", "d-fail.ext 3 Fail"}
	if !slices.Equal(got, want) {
		t.Errorf("handlers are %q, want %q", got, want)
	}
	t.Attr("rule", "RC-14")
	t.Attr("rule", "RC-15")

	for name, c := range map[string]struct{ more, want string }{
		"late":  {`,"timeoutSeconds":31`, "timeoutSeconds is 31: it must be 0 to 30"},
		"moody": {`,"failurePolicy":"Retry"`, `failurePolicy is "Retry": it must be Fail or Ignore`},
	} {
		w.create(name, w.ca.Serve(t, discovers(handler("h", c.more)), nil).URL, nil)
		w.condition(name, "Discovered", metav1.ConditionFalse, c.want)
		if handlers := w.get(name).Status.Handlers; len(handlers) != 0 {
			t.Errorf("%s: handlers are %+v", name, handlers)
		}
		switch name {
		case "late":
			t.Attr("rule", "RC-14")
		case "moody":
			t.Attr("rule", "RC-15")
		}
	}
}

// The administrator's timeout is in effect: the handler is called with it. The status keeps the extension's timeout,
// which applies again when the annotation is removed.
func TestTimeoutInUse(t *testing.T) {
	config := runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "ext"}}
	config.Status.Handlers = []runtimev1.ExtensionHandler{{
		Name: "gate.ext", TimeoutSeconds: 10, FailurePolicy: runtimev1.FailurePolicyFail,
		RequestHook: runtimev1.GroupVersionHook{
			APIVersion: "hooks.runtime.cluster.x-k8s.io/v1alpha1",
			Hook:       "BeforeClusterCreate",
		},
	}}
	config.Annotations = map[string]string{registry.TimeoutAnnotation: "5s"}
	r := registry.New()
	if err := r.WarmUp([]runtimev1.ExtensionConfig{config}); err != nil {
		t.Fatal(err)
	}
	h, err := r.Handler("gate.ext")
	if err != nil || h.Timeout.Seconds() != 5 || config.Status.Handlers[0].TimeoutSeconds != 10 {
		t.Errorf("the handler is called with %v, %v; the status has %d", h, err,
			config.Status.Handlers[0].TimeoutSeconds)
	}
	t.Attr("rule", "CL-03")
}

// The API server's schema rejects these ExtensionConfigs by itself, whoever the caller is.
func TestTheAPIServerRefuses(t *testing.T) {
	w := newWorld(t, nil)
	service := func(change func(*runtimev1.ServiceReference)) func(*runtimev1.ExtensionConfig) {
		return func(c *runtimev1.ExtensionConfig) {
			c.Spec.ClientConfig.URL = ""
			c.Spec.ClientConfig.Service = runtimev1.ServiceReference{Namespace: "ns", Name: "svc"}
			change(&c.Spec.ClientConfig.Service)
		}
	}
	for name, change := range map[string]func(*runtimev1.ExtensionConfig){
		"a URL that is too long": func(c *runtimev1.ExtensionConfig) {
			c.Spec.ClientConfig.URL = "https://example.org/" + strings.Repeat("x", 512)
		},
		"a service without a name":      service(func(s *runtimev1.ServiceReference) { s.Name = "" }),
		"a service without a namespace": service(func(s *runtimev1.ServiceReference) { s.Namespace = "" }),
		"a service's name that is too long": service(func(s *runtimev1.ServiceReference) {
			s.Name = strings.Repeat("x", 64)
		}),
		"a service's path that is too long": service(func(s *runtimev1.ServiceReference) {
			s.Path = "/" + strings.Repeat("x", 512)
		}),
		"an authority that is too large": func(c *runtimev1.ExtensionConfig) {
			c.Spec.ClientConfig.CABundle = make([]byte, 52<<10)
		},
	} {
		config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "refused"}}
		config.Spec.ClientConfig.URL = "https://example.org"
		config.Spec.NamespaceSelector = &metav1.LabelSelector{}
		change(config)
		if err := w.admin.Create(t.Context(), config); err == nil {
			t.Errorf("%s: it was created", name)
		}
		switch name {
		case "a URL that is too long":
			t.Attr("rule", "RC-05")
		case "a service without a name", "a service without a namespace", "a service's name that is too long":
			t.Attr("rule", "RC-06")
		}
	}
}

// A Service of the management cluster should not be configured by URL. If it is, a warning says what to write instead.
func TestAdmissionWarnsOfAServiceByItsURL(t *testing.T) {
	for url, warned := range map[string]bool{
		"https://quota.extensions.svc":               true,
		"https://quota.extensions.svc:8443/x":        true,
		"https://quota.extensions.svc.cluster.local": true,
		"https://quota.extensions.svc.example.org":   false,
		"https://svc":                                     false,
		"https://quota.example.org":                       false,
		"https://10.0.0.1:8443":                           false,
		"https://quota.extensions.SVC":                    true,
		"https://quota.extensions.svc.cluster.local.:443": true,
	} {
		config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "ext"}}
		config.Spec.ClientConfig = runtimev1.ClientConfig{URL: url, CABundle: otherCA(t)}
		warnings, err := (&extensionconfig.Validator{}).ValidateCreate(t.Context(), config)
		if err != nil || apierrors.IsInvalid(err) || (len(warnings) == 1) != warned {
			t.Errorf("%s: %q, %v", url, warnings, err)
		}
		if warned && !strings.Contains(strings.Join(warnings, ""), "spec.clientConfig.service") {
			t.Errorf("%s: the warning is %q", url, warnings)
		}
	}
	t.Attr("rule", "RC-05")
}
