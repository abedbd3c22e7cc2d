package registry

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/hook"
)

var family = hook.BeforeClusterCreate.ID().Family()

func config(name string, handlers ...string) runtimev1.ExtensionConfig {
	c := runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, h := range handlers {
		c.Status.Handlers = append(c.Status.Handlers, runtimev1.ExtensionHandler{
			Name:        h + "." + name,
			RequestHook: runtimev1.GroupVersionHook{APIVersion: family.Group + "/v1alpha1", Hook: family.Name},
		})
	}
	return c
}

func names(t *testing.T, r *Registry) string {
	t.Helper()
	handlers, err := r.Handlers(family)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, h := range handlers {
		names = append(names, h.Name)
	}
	return strings.Join(names, " ")
}

func warm(t *testing.T, configs ...runtimev1.ExtensionConfig) *Registry {
	t.Helper()
	r := New()
	if err := r.WarmUp(configs); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOrderIsByExtensionThenHandler(t *testing.T) {
	r := warm(t, config("b", "z", "a"), config("a", "m"))
	if got := names(t, r); got != "m.a a.b z.b" {
		t.Errorf("order is %s", got)
	}
}

func TestPutReplacesAndRemoveForgets(t *testing.T) {
	r := warm(t, config("a", "old"))
	again := config("a", "new")
	if err := r.Put(&again); err != nil {
		t.Fatal(err)
	}
	if got := names(t, r); got != "new.a" {
		t.Errorf("after Put: %s", got)
	}
	if _, err := r.Handler("old.a"); err == nil {
		t.Error("the old handler is still there")
	}
	for range 2 { // the second time there is nothing to forget
		if err := r.Remove("a"); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, r); got != "" {
		t.Errorf("after Remove: %s", got)
	}
}

func TestVersionsOfAHookAreOneFamily(t *testing.T) {
	c := config("a", "x", "y")
	c.Status.Handlers[1].RequestHook.APIVersion = family.Group + "/v1alpha0"
	if got := names(t, warm(t, c)); got != "x.a y.a" {
		t.Errorf("handlers are %s (CL-16)", got)
	}
	t.Attr("rule", "CL-16")
}

func TestWarmUpIsAllOrNothing(t *testing.T) {
	bad := config("bad")
	bad.Spec.NamespaceSelector = &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Maybe"}},
	}
	worse := config("worse", "x")
	worse.Status.Handlers[0].RequestHook.APIVersion = "a/b/c"
	r := New()
	err := r.WarmUp([]runtimev1.ExtensionConfig{config("good", "x"), bad, worse})
	if err == nil || !strings.Contains(err.Error(), `"bad"`) || !strings.Contains(err.Error(), `"worse"`) || r.Ready() {
		t.Errorf("error is %v, ready %t", err, r.Ready())
	}
	if err := r.WarmUp([]runtimev1.ExtensionConfig{config("good", "x")}); err != nil || !r.Ready() {
		t.Errorf("trying again: %v, ready %t", err, r.Ready())
	}
	if err := r.WarmUp(nil); err == nil {
		t.Error("it was warmed up twice")
	}
	if err := r.Put(&worse); err == nil || names(t, r) != "x.good" {
		t.Errorf("Put of an invalid ExtensionConfig: %v, handlers %s", err, names(t, r))
	}
}

func TestNothingBeforeWarmUp(t *testing.T) {
	r := New()
	c := config("a", "x")
	_, list := r.Handlers(family)
	_, one := r.Handler("x.a")
	for name, err := range map[string]error{"Put": r.Put(&c), "Remove": r.Remove("a"), "Handlers": list, "Handler": one} {
		if !errors.Is(err, ErrNotReady) {
			t.Errorf("%s: %v", name, err)
		}
		t.Attr("rule", "CL-15")
	}
}

func TestHandlerSharesNothingWithTheObject(t *testing.T) {
	c := config("a", "x")
	c.Spec.Settings = map[string]string{"k": "v"}
	c.Spec.ClientConfig.CABundle = []byte("ca")
	r := warm(t, c)
	c.Spec.Settings["k"], c.Spec.ClientConfig.CABundle[0] = "changed", 'X'
	h, err := r.Handler("x.a")
	if err != nil || h.Extension.Settings["k"] != "v" || string(h.Extension.Client.CABundle) != "ca" {
		t.Errorf("got %+v, %v", h.Extension, err)
	}
}

func TestFieldsOfAHandler(t *testing.T) {
	for name, c := range map[string]struct {
		seconds int32
		policy  runtimev1.FailurePolicy
		want    time.Duration
		ignore  bool
	}{
		"defaults": {0, "", 10 * time.Second, false},
		"a timeout and a policy that are allowed": {3, runtimev1.FailurePolicyIgnore, 3 * time.Second, true},
		"Fail":                        {30, runtimev1.FailurePolicyFail, 30 * time.Second, false},
		"a timeout above the maximum": {3600, runtimev1.FailurePolicyFail, 30 * time.Second, false},
	} {
		cfg := config("a", "x")
		cfg.Status.Handlers[0].TimeoutSeconds, cfg.Status.Handlers[0].FailurePolicy = c.seconds, c.policy
		h, err := warm(t, cfg).Handler("x.a")
		if err != nil || h.Timeout != c.want || h.IgnoreFailures != c.ignore || h.Local != "x" ||
			h.Hook != hook.BeforeClusterCreate.ID() {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
		switch name {
		case "a timeout above the maximum":
			t.Attr("rule", "CL-02")
		case "a timeout and a policy that are allowed":
			t.Attr("rule", "CL-03")
		}
	}
}

func TestNamespaceSelectors(t *testing.T) {
	for name, c := range map[string]struct {
		selector *metav1.LabelSelector
		matches  bool
	}{
		"absent":   {nil, true},
		"empty":    {&metav1.LabelSelector{}, true},
		"matching": {&metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, true},
		"other":    {&metav1.LabelSelector{MatchLabels: map[string]string{"a": "c"}}, false},
	} {
		cfg := config("a", "x")
		cfg.Spec.NamespaceSelector = c.selector
		h, err := warm(t, cfg).Handler("x.a")
		if err != nil || h.Extension.Namespaces.Matches(labels.Set{"a": "b"}) != c.matches {
			t.Errorf("%s: %v", name, err)
		}
		switch name {
		case "absent":
			t.Attr("rule", "RC-10")
		}
	}
}

func TestReadersAndWritersAtTheSameTime(t *testing.T) {
	r := warm(t)
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			c := config(fmt.Sprintf("e%d", i), "x", "y")
			for range 200 {
				if err := r.Put(&c); err != nil {
					t.Error(err)
				}
				if err := r.Remove(c.Name); err != nil {
					t.Error(err)
				}
			}
		})
		group.Go(func() {
			for range 200 {
				handlers, err := r.Handlers(family)
				if err != nil || len(handlers)%2 != 0 {
					t.Errorf("a reader saw half an extension: %d handlers, %v", len(handlers), err)
				}
			}
		})
	}
	group.Wait()
}

func selector(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}
