package extensionconfig_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/extensionconfig"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/registry"
)

// The life of an extension, from the first apply to the deletion.
func TestLifeOfAnExtension(t *testing.T) {
	w := newWorld(t, nil)
	w.start(nil)
	e := w.deploy(gate)
	w.create("ext", e.url, nil)
	w.condition("ext", "Discovered", metav1.ConditionTrue, "")
	w.condition("ext", "Paused", metav1.ConditionFalse, "")
	t.Attr("rule", "RC-16")
	w.answers("gate")
	t.Attr("rule", "RC-01")
	config := w.get("ext")
	if namespaced, err := w.admin.IsObjectNamespaced(config); err != nil || namespaced || config.Namespace != "" {
		t.Errorf("an ExtensionConfig is in a namespace: %t, %q, %v", namespaced, config.Namespace, err)
	}
	t.Attr("rule", "RC-03")
	want := runtimev1.ExtensionHandler{
		Name: "gate.ext", RequestHook: runtimev1.GroupVersionHook{
			APIVersion: "hooks.runtime.cluster.x-k8s.io/v1alpha1", Hook: "BeforeClusterCreate",
		},
		TimeoutSeconds: 10, FailurePolicy: runtimev1.FailurePolicyFail,
	}
	if len(config.Status.Handlers) != 1 || config.Status.Handlers[0] != want {
		t.Errorf("handlers are %+v", config.Status.Handlers)
	}
	t.Attr("rule", "RC-11")
	t.Attr("rule", "RC-12")
	t.Attr("rule", "RC-13")
	if older := config.GetV1Beta1Conditions(); len(older) != 1 ||
		older[0].Type != runtimev1.RuntimeExtensionDiscoveredV1Beta1Condition || older[0].Status != "True" {
		t.Errorf("the conditions of the previous contract are %+v", older)
	}

	// While the ExtensionConfig is paused, it stays unchanged, whatever happens to the extension.
	w.update("ext", func(c *runtimev1.ExtensionConfig) {
		c.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	})
	w.condition("ext", "Paused", metav1.ConditionTrue, "paused annotation")
	e.redeploy(gate, "more=hooks.runtime.cluster.x-k8s.io/v1alpha1/BeforeClusterCreate")
	w.answers("gate")
	w.update("ext", func(c *runtimev1.ExtensionConfig) { delete(c.Annotations, clusterv1.PausedAnnotation) })
	w.condition("ext", "Paused", metav1.ConditionFalse, "")
	w.answers("gate, more")

	// Once the ExtensionConfig is deleted, the extension is no longer called, paused or not.
	w.update("ext", func(c *runtimev1.ExtensionConfig) {
		c.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	})
	w.condition("ext", "Paused", metav1.ConditionTrue, "")
	if err := w.admin.Delete(t.Context(), w.get("ext")); err != nil {
		t.Fatal(err)
	}
	w.answers("")
	t.Attr("rule", "RC-18")
}

// A redeployed extension has other handlers. Nobody touches its ExtensionConfig (RC-18).
func TestAnExtensionThatIsDeployedAnew(t *testing.T) {
	w := newWorld(t, nil)
	w.start(nil)
	e := w.deploy("old=hooks.runtime.cluster.x-k8s.io/v1alpha1/BeforeClusterCreate")
	w.create("ext", e.url, nil)
	w.answers("old")
	e.redeploy("new=hooks.runtime.cluster.x-k8s.io/v1alpha1/BeforeClusterCreate")
	w.answers("new")
	w.eventually("the status, which is written after the client knows the new handler", func() error {
		if handlers := w.get("ext").Status.Handlers; len(handlers) != 1 || handlers[0].Name != "new.ext" {
			return fmt.Errorf("handlers are %+v", handlers)
		}
		return nil
	})
}

// A new server has closed the connections of the old one, so an added handler is found at the next call.
func TestNewHandlersAreFoundAfterARestart(t *testing.T) {
	w := newWorld(t, nil)
	w.start(nil)
	e := w.deploy(gate)
	w.create("ext", e.url, nil)
	w.answers("gate")
	e.redeploy(gate, "more=hooks.runtime.cluster.x-k8s.io/v1alpha1/BeforeClusterCreate")
	e.server.CloseClientConnections()
	w.answers("gate, more")
}

// An added handler makes no call fail, so only the next periodic discovery finds it.
func TestNewHandlersAreFoundInTime(t *testing.T) {
	w := newWorld(t, nil)
	w.start(func(r *extensionconfig.Reconciler) { r.Rediscover = 200 * time.Millisecond })
	e := w.deploy(gate)
	w.create("ext", e.url, nil)
	w.answers("gate")
	e.redeploy(gate, "more=hooks.runtime.cluster.x-k8s.io/v1alpha1/BeforeClusterCreate")
	w.answers("gate, more")
}

// The CA certificate comes from a Secret. The condition shows each thing that can be wrong with it, and recovery needs
// no change of the ExtensionConfig (RC-09).
func TestAuthorityFromASecret(t *testing.T) {
	w := newWorld(t, nil)
	w.start(nil)
	e := w.deploy(gate)
	w.create("ext", e.url, func(c *runtimev1.ExtensionConfig) {
		c.Spec.ClientConfig.CABundle = nil
		c.Annotations = map[string]string{runtimev1.InjectCAFromSecretAnnotation: "default/ext-ca"}
	})
	w.condition("ext", "Discovered", metav1.ConditionFalse,
		"the Secret default/ext-ca that annotation runtime.cluster.x-k8s.io/inject-ca-from-secret names does not exist")
	w.secret("ext-ca", map[string][]byte{"tls.crt": w.ca.PEM})
	w.condition("ext", "Discovered", metav1.ConditionFalse,
		`the Secret default/ext-ca has no key "ca.crt": put the certificate of the CA there`)
	w.secret("ext-ca", map[string][]byte{"ca.crt": []byte("junk")})
	w.condition("ext", "Discovered", metav1.ConditionFalse, "holds no certificate in PEM form")
	w.secret("ext-ca", map[string][]byte{"ca.crt": w.ca.PEM})
	w.condition("ext", "Discovered", metav1.ConditionTrue, "")
	w.answers("gate")
	if got := string(w.get("ext").Spec.ClientConfig.CABundle); got != string(w.ca.PEM) {
		t.Errorf("caBundle is %q", got)
	}
	t.Attr("rule", "RC-09")
	w.update("ext", func(c *runtimev1.ExtensionConfig) {
		c.Annotations[runtimev1.InjectCAFromSecretAnnotation] = "no-namespace"
	})
	w.condition("ext", "Discovered", metav1.ConditionFalse, `is "no-namespace": it must be <namespace>/<name>`)
	w.answers("gate") // the previous handlers stay
}

// Whatever is wrong with one extension, its condition says what to do, its previous handlers stay, and the others
// work.
func TestBrokenExtensions(t *testing.T) {
	w := newWorld(t, nil)
	w.start(nil)
	good := w.deploy(gate)
	w.create("good", good.url, nil)
	w.answers("gate")
	for name, c := range map[string]struct {
		change func(*runtimev1.ExtensionConfig)
		want   string
	}{
		"credentials": {func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.URL = "https://me:secret@127.0.0.1:1" },
			"spec.clientConfig.url has user information: remove it"},
		"neither": {func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.URL = "" }, "neither url nor service: set one"},
		"both": {func(c *runtimev1.ExtensionConfig) {
			c.Spec.ClientConfig.Service = runtimev1.ServiceReference{Namespace: "a", Name: "b"}
		}, "both url and service: set one"},
		"plain": {func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.URL = "http://127.0.0.1:1" },
			"only https is allowed"},
		"selector": {func(c *runtimev1.ExtensionConfig) {
			c.Spec.NamespaceSelector.MatchLabels = map[string]string{"a b": "c"}
		}, "spec.namespaceSelector is not a label selector"},
		"override": {func(c *runtimev1.ExtensionConfig) {
			c.Annotations = map[string]string{"runtime.capstan.dev/timeout": "1h"}
		}, "it must be a duration of 1s to 30s"},
		"authority": {func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.CABundle = []byte("junk") },
			"caBundle holds no certificate in PEM form"},
		"nobody": {func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.URL = "https://127.0.0.1:1" },
			"connection refused"},
		"name": {func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.URL = "https://nowhere.invalid" },
			"nowhere.invalid"},
		"other-ca": {func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.CABundle = otherCA(t) },
			"failed to verify certificate"},
		"no-such-thing": {func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.URL += "/nothing/here" },
			"HTTP status 404"},
	} {
		w.create(name, w.ca.Serve(t, http.NotFoundHandler(), nil).URL, c.change)
		w.condition(name, "Discovered", metav1.ConditionFalse, c.want)
		if message := fmt.Sprintf("%+v", w.get(name).Status); strings.Contains(message, "secret") {
			t.Errorf("%s: the status contains a password: %s", name, message)
		}
	}
	if got, err := w.call(); err != nil || got != "gate" {
		t.Errorf("the extension that works: %q, %v", got, err)
	}
	t.Attr("rule", "RC-16")
}

// The eighth defect seen in other clients: one unknown hook made the whole extension unknown. Also, a condition warns
// users of deprecated hooks (RC-22).
func TestNotesInConditions(t *testing.T) {
	define := func(version string) hook.Hook[runtimehooksv1.BeforeClusterUpgradeRequest,
		runtimehooksv1.BeforeClusterUpgradeResponse] {
		return hook.Define[runtimehooksv1.BeforeClusterUpgradeRequest, runtimehooksv1.BeforeClusterUpgradeResponse](
			schema.GroupVersion{Group: "hooks.example.org", Version: version}, "BeforePowerOff")
	}
	newest, older := define("v1beta1"), define("v1alpha1")
	catalog, err := hook.NewCatalog(append(hook.ClusterAPIHooks(), newest, hook.Serves(newest, older,
		func(n, o *runtimehooksv1.BeforeClusterUpgradeRequest) error { *o = *n; return nil },
		func(o, n *runtimehooksv1.BeforeClusterUpgradeResponse) error { *n = *o; return nil }),
		hook.About(older, hook.Facts{Introduced: "v1.1", Deprecated: "v1.3", RemovedIn: "v1.5", ReplacedBy: "v1beta1"}))...)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, catalog)
	w.start(nil)
	e := w.deploy(gate, "old=hooks.example.org/v1alpha1/BeforePowerOff", "future=hooks.example.org/v2/BeforePowerOff")
	w.create("ext", e.url, func(c *runtimev1.ExtensionConfig) {
		c.Annotations = map[string]string{"timeout.runtime.capstan.dev/gaet": "5s"}
	})
	w.answers("gate")
	w.condition("ext", "Discovered", metav1.ConditionTrue, "")
	w.condition("ext", client.HooksKnownCondition, metav1.ConditionFalse, "future (hooks.example.org/v2/BeforePowerOff)")
	w.condition("ext", extensionconfig.HooksCurrentCondition, metav1.ConditionFalse,
		"old.ext (hooks.example.org/v1alpha1/BeforePowerOff is deprecated since v1.3, removed in v1.5; use v1beta1)")
	w.condition("ext", extensionconfig.OverridesUsedCondition, metav1.ConditionFalse, "does not have: gaet")

	warnings, err := (&extensionconfig.Validator{Catalog: catalog}).ValidateUpdate(t.Context(), nil, w.get("ext"))
	if err != nil || len(warnings) != 2 || !strings.Contains(warnings[0], "deprecated since v1.3") ||
		!strings.Contains(warnings[1], "gaet") {
		t.Errorf("admission says %q, %v", warnings, err)
	}
	t.Attr("rule", "RC-22")

	e.redeploy(gate, "old=hooks.example.org/v1beta1/BeforePowerOff")
	w.update("ext", func(c *runtimev1.ExtensionConfig) {
		c.Annotations = map[string]string{"timeout.runtime.capstan.dev/gate": "5s"}
	})
	for _, condition := range []string{client.HooksKnownCondition, extensionconfig.HooksCurrentCondition,
		extensionconfig.OverridesUsedCondition} {
		w.condition("ext", condition, "absent", "")
	}
}

// One extension that is down must not keep the management cluster from starting (CL-15).
func TestStartWithExtensionsThatAreDown(t *testing.T) {
	w := newWorld(t, nil)
	e := w.deploy(gate)
	w.create("good", e.url, nil)
	w.create("never-answered", "https://127.0.0.1:1", nil)
	known := w.create("known", "https://127.0.0.1:1", nil)
	known.Status.Handlers = []runtimev1.ExtensionHandler{{
		Name: "later.known", RequestHook: runtimev1.GroupVersionHook{
			APIVersion: "hooks.runtime.cluster.x-k8s.io/v1alpha1", Hook: "BeforeClusterDelete",
		},
		TimeoutSeconds: 10, FailurePolicy: runtimev1.FailurePolicyFail,
	}}
	if err := w.admin.Status().Update(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	broken := w.create("broken", "https://me:secret@127.0.0.1", nil)
	broken.Status.Handlers = []runtimev1.ExtensionHandler{
		{Name: "x.broken", RequestHook: runtimev1.GroupVersionHook{APIVersion: "a/b/c", Hook: "X"}, TimeoutSeconds: 1},
	}
	if err := w.admin.Status().Update(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	w.start(func(r *extensionconfig.Reconciler) { r.Patience = 100 * time.Millisecond })
	w.eventually("waiting until the client is ready", func() error {
		if !w.calls.IsReady() {
			return fmt.Errorf("the client is not ready")
		}
		return nil
	})
	w.answers("gate")
	names, err := w.calls.GetAllExtensions(t.Context(), runtimehooksv1.BeforeClusterDelete, w.get("known"))
	if err != nil || len(names) != 1 || names[0] != "later.known" {
		t.Errorf("the handlers from the status are %v, %v", names, err)
	}
	t.Attr("rule", "CL-15")
	w.condition("never-answered", "Discovered", metav1.ConditionFalse, "connection refused")
	w.condition("broken", "Discovered", metav1.ConditionFalse, "user information")
	t.Attr("rule", "RC-16")
}

// Periodic discoveries that find no change write nothing, however often they happen and in whatever order an extension
// lists its handlers.
func TestNothingIsWrittenWithoutAChange(t *testing.T) {
	w := newWorld(t, nil)
	w.start(func(r *extensionconfig.Reconciler) { r.Rediscover = 20 * time.Millisecond })
	var asked atomic.Int32
	done := make(chan struct{})
	url := w.ca.Serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if asked.Add(1) == 30 {
			close(done)
		}
		handlers := []string{}
		for name := range map[string]bool{"a": true, "b": true, "c": true, "d": true} { // in a different order each time
			handlers = append(handlers, `{"name":"`+name+
				`","requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","hook":"BeforeClusterCreate"}}`)
		}
		_, _ = io.WriteString(rw, `{"status":"Success","handlers":[`+strings.Join(handlers, ",")+`]}`)
	}), nil).URL
	w.create("ext", url, nil)
	w.condition("ext", "Discovered", metav1.ConditionTrue, "")
	before := w.get("ext").ResourceVersion
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatal("the extension is not asked for its handlers again")
	}
	if after := w.get("ext").ResourceVersion; after != before {
		t.Errorf("the ExtensionConfig was written: resourceVersion %s, then %s", before, after)
	}
}

// An administrator's overrides apply while an extension is down, because that is when they are set. A mistake in the
// extension's client configuration does no harm.
func TestOverridesOfAnExtensionThatIsDown(t *testing.T) {
	w := newWorld(t, nil)
	w.start(nil)
	e := w.deploy(gate)
	w.create("ext", e.url, nil)
	w.answers("gate")

	w.update("ext", func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.URL = "https://127.0.0.1:1" })
	w.condition("ext", "Discovered", metav1.ConditionFalse, "connection refused")
	w.answers("gate")
	w.update("ext", func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.URL = e.url })
	w.condition("ext", "Discovered", metav1.ConditionTrue, "")

	e.server.Close()
	if _, err := w.call(); err == nil {
		t.Fatal("an extension that is down answers")
	}
	w.update("ext", func(c *runtimev1.ExtensionConfig) {
		c.Annotations = map[string]string{registry.FailurePolicyAnnotation: "Ignore"}
	})
	w.answers("")
	w.update("ext", func(c *runtimev1.ExtensionConfig) { c.Annotations = nil })
	w.eventually("the previous failure policy", func() error {
		if _, err := w.call(); err == nil {
			return errors.New("the failure is still ignored")
		}
		return nil
	})
	w.update("ext", func(c *runtimev1.ExtensionConfig) {
		c.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"no": "namespace"}}
	})
	w.answers("")
}

// If the configuration of an extension makes it unreachable, calls to it fail and its failure policy applies, also
// after a restart: the extension is not left out, and the others are not affected.
func TestAKnownExtensionWithABrokenAuthority(t *testing.T) {
	for policy, fails := range map[runtimev1.FailurePolicy]bool{
		runtimev1.FailurePolicyFail: true, runtimev1.FailurePolicyIgnore: false,
	} {
		t.Run(string(policy), func(t *testing.T) {
			w := newWorld(t, nil)
			known := w.create("known", "https://127.0.0.1:1",
				func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.CABundle = []byte("junk") })
			known.Status.Handlers = []runtimev1.ExtensionHandler{{
				Name: "gate.known", RequestHook: runtimev1.GroupVersionHook{
					APIVersion: "hooks.runtime.cluster.x-k8s.io/v1alpha1", Hook: "BeforeClusterCreate",
				},
				TimeoutSeconds: 10, FailurePolicy: policy,
			}}
			if err := w.admin.Status().Update(t.Context(), known); err != nil {
				t.Fatal(err)
			}
			e := w.deploy(gate)
			w.create("other", e.url, nil)
			w.start(nil)
			w.condition("known", "Discovered", metav1.ConditionFalse, "caBundle holds no certificate in PEM form")
			if !fails {
				w.answers("gate")
				return
			}
			w.eventually("the call fails", func() error {
				if _, err := w.call(); err == nil || !strings.Contains(err.Error(), "caBundle holds no certificate in PEM form") {
					return fmt.Errorf("got %v", err)
				}
				return nil
			})
		})
	}
}
