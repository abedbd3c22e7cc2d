package extensionconfig_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/extensionconfig"
	"github.com/capstan-dev/capstan/runtime/internal/testtls"
)

func otherCA(t *testing.T) []byte { return testtls.NewAuthority(t).PEM }

func TestCheck(t *testing.T) {
	port := func(n int32) *int32 { return &n }
	service := func(change func(*runtimev1.ServiceReference)) func(*runtimev1.ExtensionConfig) {
		return func(c *runtimev1.ExtensionConfig) {
			c.Spec.ClientConfig.URL = ""
			c.Spec.ClientConfig.Service = runtimev1.ServiceReference{Namespace: "ns", Name: "svc"}
			change(&c.Spec.ClientConfig.Service)
		}
	}
	url := func(u string) func(*runtimev1.ExtensionConfig) {
		return func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.URL = u }
	}
	for name, c := range map[string]struct {
		change func(*runtimev1.ExtensionConfig)
		want   string // "" is valid
	}{
		"a URL":             {func(*runtimev1.ExtensionConfig) {}, ""},
		"a URL with a path": {url("https://example.org:8443/prefix"), ""},
		"plain http":        {url("http://example.org"), `the scheme "http": only https is allowed`},
		"no scheme":         {url("example.org:443"), "the scheme"},
		"no host":           {url("https:///x"), "has no host"},
		"an invalid URL":    {url("https://[::1"), "is not a URL"},
		"credentials":       {url("https://me:pass@example.org"), "has user information"},
		"a query":           {url("https://example.org?x=y"), "must not have a query"},
		"a service":         {service(func(*runtimev1.ServiceReference) {}), ""},
		"a service's path":  {service(func(s *runtimev1.ServiceReference) { s.Path = "/x"; s.Port = port(8443) }), ""},
		"a path without a slash": {service(func(s *runtimev1.ServiceReference) { s.Path = "x" }),
			"must begin with a slash"},
		"port 0": {service(func(s *runtimev1.ServiceReference) { s.Port = port(0) }),
			"port is 0: it must be 1 to 65535"},
		"port 65536": {service(func(s *runtimev1.ServiceReference) { s.Port = port(65536) }), "port is 65536"},
		"an invalid namespace": {service(func(s *runtimev1.ServiceReference) { s.Namespace = "A_b" }),
			`service.namespace is "A_b"`},
		"a service without a name": {service(func(s *runtimev1.ServiceReference) { s.Name = "" }), `service.name is ""`},
		"both": {func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.Service.Name = "x" },
			"both url and service"},
		"neither":     {url(""), "neither url nor service"},
		"no selector": {func(c *runtimev1.ExtensionConfig) { c.Spec.NamespaceSelector = nil }, ""},
		"an invalid selector": {func(c *runtimev1.ExtensionConfig) {
			c.Spec.NamespaceSelector = &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Maybe"}},
			}
		}, "not a label selector"},
		"an invalid override": {
			func(c *runtimev1.ExtensionConfig) { c.Annotations["runtime.capstan.dev/timeout"] = "x" },
			"annotation runtime.capstan.dev/timeout",
		},
		"a Secret": {
			func(c *runtimev1.ExtensionConfig) { c.Annotations[runtimev1.InjectCAFromSecretAnnotation] = "ns/name" }, "",
		},
		"a Secret without a namespace": {
			func(c *runtimev1.ExtensionConfig) { c.Annotations[runtimev1.InjectCAFromSecretAnnotation] = "name" },
			"must be <namespace>/<name>",
		},
		"the name of a Secret with three parts": {
			func(c *runtimev1.ExtensionConfig) { c.Annotations[runtimev1.InjectCAFromSecretAnnotation] = "a/b/c" },
			"must be <namespace>/<name>",
		},
		"an invalid authority": {func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.CABundle = []byte("junk") },
			"caBundle holds no certificate in PEM form"},
		"an invalid authority that a Secret replaces": {func(c *runtimev1.ExtensionConfig) {
			c.Spec.ClientConfig.CABundle = []byte("Cg==")
			c.Annotations[runtimev1.InjectCAFromSecretAnnotation] = "ns/name"
		}, ""},
		"two errors at once": {func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.URL = "http://me@example.org" },
			"only https is allowed; spec.clientConfig.url has user information"},
	} {
		config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "ext", Annotations: map[string]string{}}}
		config.Spec.ClientConfig.URL = "https://example.org"
		config.Spec.NamespaceSelector = &metav1.LabelSelector{}
		c.change(config)
		err := extensionconfig.Check(config)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), "pass") || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: the text has a password or a line break: %v", name, err)
		}
		// Admission reports the same (T-RC-08).
		_, created := (&extensionconfig.Validator{}).ValidateCreate(t.Context(), config)
		_, updated := (&extensionconfig.Validator{}).ValidateUpdate(t.Context(), config, config)
		if apierrors.IsInvalid(created) != (err != nil) || apierrors.IsInvalid(updated) != (err != nil) {
			t.Errorf("%s: admission says %v, %v", name, created, updated)
		}
		switch name {
		case "both", "neither":
			t.Attr("rule", "RC-04")
		case "plain http", "credentials", "a query":
			t.Attr("rule", "RC-05")
		case "an invalid namespace", "a service without a name":
			t.Attr("rule", "RC-06")
		case "a path without a slash":
			t.Attr("rule", "RC-07")
		case "port 0", "port 65536":
			t.Attr("rule", "RC-08")
		}
		now := metav1.Now()
		config.DeletionTimestamp = &now
		if _, err := (&extensionconfig.Validator{}).ValidateUpdate(t.Context(), config, config); err != nil {
			t.Errorf("%s: it can't be deleted: %v", name, err)
		}
	}
}

func TestAdmissionWarnsOfAMissingAuthority(t *testing.T) {
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "ext"}}
	config.Spec.ClientConfig.URL = "https://example.org"
	warnings, err := (&extensionconfig.Validator{}).ValidateCreate(t.Context(), config)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "caBundle") {
		t.Errorf("without a caBundle, the warnings are %q, %v", warnings, err)
	}
	config.Spec.ClientConfig.CABundle = otherCA(t)
	if warnings, err := (&extensionconfig.Validator{}).ValidateCreate(t.Context(), config); err != nil ||
		len(warnings) != 0 {
		t.Errorf("with a caBundle, the warnings are %q, %v", warnings, err)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("https://me:hunter2@example.org/x", "ns", "name", "/p", "a/b", "5s")
	f.Fuzz(func(t *testing.T, url, namespace, name, path, secret, timeout string) {
		config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "ext", Annotations: map[string]string{
			runtimev1.InjectCAFromSecretAnnotation: secret, "runtime.capstan.dev/timeout": timeout,
		}}}
		config.Spec.ClientConfig = runtimev1.ClientConfig{
			URL: url, Service: runtimev1.ServiceReference{Namespace: namespace, Name: name, Path: path},
		}
		if err := extensionconfig.Check(config); err != nil && strings.Contains(err.Error(), "hunter2") &&
			!strings.Contains(namespace+name+path+secret+timeout, "hunter2") {
			t.Errorf("the text has a password: %v", err)
		}
	})
}
