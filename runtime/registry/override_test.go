package registry

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

func TestOverrides(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		want        string // timeout and policy of the handlers gate and other, or the error after "error: "
	}{
		"none": {nil, "gate 7s Fail, other 7s Fail"},
		"annotations for all handlers": {
			map[string]string{"runtime.capstan.dev/timeout": "3s", "runtime.capstan.dev/failure-policy": "Ignore"},
			"gate 3s Ignore, other 3s Ignore",
		},
		"annotations for one handler": {
			map[string]string{"timeout.runtime.capstan.dev/gate": "30s", "failure-policy.runtime.capstan.dev/gate": "Ignore"},
			"gate 30s Ignore, other 7s Fail",
		},
		"the annotation for one handler takes precedence": {
			map[string]string{"runtime.capstan.dev/timeout": "3s", "timeout.runtime.capstan.dev/other": "1.5s"},
			"gate 3s Fail, other 1.5s Fail",
		},
		"other annotations": {map[string]string{"example.org/timeout": "junk", "runtime.cluster.x-k8s.io/x": "y"},
			"gate 7s Fail, other 7s Fail"},
		"an invalid timeout": {map[string]string{"runtime.capstan.dev/timeout": "soon"},
			`error: annotation runtime.capstan.dev/timeout: it is "soon": it must be a duration of 1s to 30s`},
		"a timeout without a unit": {map[string]string{"runtime.capstan.dev/timeout": "5"}, `it is "5"`},
		"a timeout of zero": {map[string]string{"timeout.runtime.capstan.dev/gate": "0s"},
			`error: annotation timeout.runtime.capstan.dev/gate: it is "0s"`},
		"a timeout that is too long": {map[string]string{"runtime.capstan.dev/timeout": "31s"},
			`error: annotation runtime.capstan.dev/timeout: it is "31s"`},
		"a policy that does not exist": {map[string]string{"failure-policy.runtime.capstan.dev/gate": "Retry"},
			`it is "Retry": it must be Fail or Ignore`},
		"an invalid selector": {map[string]string{"runtime.capstan.dev/object-selector": "a in ("},
			"annotation runtime.capstan.dev/object-selector: it must be a label selector such as"},
		"all errors": {map[string]string{
			"runtime.capstan.dev/timeout": "x", "runtime.capstan.dev/failure-policy": "y",
		},
			"annotation runtime.capstan.dev/failure-policy: it is \"y\": it must be Fail or Ignore\n" +
				"annotation runtime.capstan.dev/timeout"},
	} {
		o, err := ReadOverrides(c.annotations)
		if err != nil {
			if want := strings.TrimPrefix(c.want, "error: "); !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error is %v, want one with %q", name, err, want)
			}
			continue
		}
		var got []string
		for _, h := range []string{"gate", "other"} {
			got = append(got, fmt.Sprintf("%s %s %s", h, o.Timeout(h, 7*time.Second),
				o.FailurePolicy(h, runtimev1.FailurePolicyFail)))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: got %s, want %s", name, text, c.want)
		}
	}
}

func TestOverridesOfHandlersThatDoNotExist(t *testing.T) {
	o, err := ReadOverrides(map[string]string{
		"timeout.runtime.capstan.dev/gate": "1s", "timeout.runtime.capstan.dev/gaet": "1s",
		"failure-policy.runtime.capstan.dev/zate": "Fail",
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(o.Unused([]string{"gate", "other"}), " "); got != "gaet zate" {
		t.Errorf("unused are %s", got)
	}
}

func TestAdministratorWins(t *testing.T) {
	c := config("a", "x", "y")
	c.Status.Handlers[0].TimeoutSeconds = 10
	c.Annotations = map[string]string{
		"timeout.runtime.capstan.dev/x": "2s", "failure-policy.runtime.capstan.dev/y": "Ignore",
		"runtime.capstan.dev/object-selector": "tier=gold",
	}
	r := warm(t, c)
	x, errX := r.Handler("x.a")
	y, errY := r.Handler("y.a")
	if errX != nil || errY != nil || x.Timeout != 2*time.Second || x.IgnoreFailures || y.Timeout != DefaultTimeout ||
		!y.IgnoreFailures {
		t.Errorf("handlers are %+v and %+v, %v, %v", x, y, errX, errY)
	}
	if !strings.HasSuffix(x.Target, "?timeout=2s") {
		t.Errorf("the target of the call is %s", x.Target)
	}
	if x.Extension.Objects.Matches(labels.Set{"tier": "silver"}) ||
		!x.Extension.Objects.Matches(labels.Set{"tier": "gold"}) {
		t.Error("the object selector does not select")
	}
	c.Annotations["runtime.capstan.dev/timeout"] = "junk"
	if err := r.Put(&c); err == nil || !strings.Contains(err.Error(),
		`ExtensionConfig "a": annotation runtime.capstan.dev/timeout`) {
		t.Errorf("an invalid annotation: %v", err)
	}
	if err := Check(&c); err == nil {
		t.Error("Check accepts an invalid annotation")
	}
	if _, err := r.Handler("x.a"); err != nil {
		t.Errorf("the handlers registered before are gone: %v", err)
	}
}

func TestFingerprintIsOfWhatCanBeSet(t *testing.T) {
	print := func(change func(*runtimev1.ExtensionConfig)) string {
		c := config("a", "x", "y")
		change(&c)
		h, err := warm(t, c).Handler("x.a")
		if err != nil {
			t.Fatal(err)
		}
		return h.Extension.Fingerprint
	}
	as := print(func(*runtimev1.ExtensionConfig) {})
	for name, c := range map[string]struct {
		change func(*runtimev1.ExtensionConfig)
		same   bool
	}{
		"another resourceVersion": {func(c *runtimev1.ExtensionConfig) { c.ResourceVersion = "2" }, true},
		"handlers in another order": {func(c *runtimev1.ExtensionConfig) {
			c.Status.Handlers[0], c.Status.Handlers[1] = c.Status.Handlers[1], c.Status.Handlers[0]
		}, true},
		"another annotation": {
			func(c *runtimev1.ExtensionConfig) { c.Annotations = map[string]string{"touched": "now"} }, false,
		},
		"other settings":  {func(c *runtimev1.ExtensionConfig) { c.Spec.Settings = map[string]string{"a": "b"} }, false},
		"another timeout": {func(c *runtimev1.ExtensionConfig) { c.Status.Handlers[0].TimeoutSeconds = 5 }, false},
		"another object":  {func(c *runtimev1.ExtensionConfig) { c.UID = "2" }, false},
	} {
		if got := print(c.change) == as; got != c.same {
			t.Errorf("%s: same is %t", name, got)
		}
	}
}

func TestGroupRemembersWhatItFound(t *testing.T) {
	prod, all, gold := config("a-prod", "x"), config("b-all", "x"), config("c-gold", "x")
	prod.Spec.NamespaceSelector = selector("env", "prod")
	gold.Annotations = map[string]string{ObjectSelectorAnnotation: "tier=gold"}
	group, err := warm(t, prod, all, gold).Group(family)
	if err != nil {
		t.Fatal(err)
	}
	in := labels.Set{"env": "prod"}
	if got := strings.Join(group.InNamespace("n", in).Names(), " "); got != "x.a-prod x.b-all x.c-gold" {
		t.Errorf("in a namespace that matches: %s", got)
	}
	if group.InNamespace("n", in) != group.InNamespace("n", labels.Set{"env": "prod"}) {
		t.Error("the answer for the same labels was computed again")
	}
	if got := strings.Join(group.InNamespace("n", labels.Set{"env": "test"}).Names(), " "); got != "x.b-all x.c-gold" {
		t.Errorf("after the namespace's labels have changed: %s", got)
	}
	if got := strings.Join(group.InNamespace("", nil).Names(), " "); got != "x.b-all x.c-gold" {
		t.Errorf("for a cluster-scoped object: %s", got)
	}
	if got := strings.Join(group.ForObject(labels.Set{"tier": "gold"}).Names(), " "); got != "x.a-prod x.b-all x.c-gold" {
		t.Errorf("for an object that matches: %s", got)
	}
	if got := strings.Join(group.ForObject(nil).Names(), " "); got != "x.a-prod x.b-all" {
		t.Errorf("for an object that does not match: %s", got)
	}
	for i := range maxRemembered + 10 {
		group.InNamespace(fmt.Sprint(i), in)
	}
	if len(group.remembered) > maxRemembered {
		t.Errorf("%d namespaces are remembered", len(group.remembered))
	}
	var none *Group
	if none.SelectsNamespaces() || none.InNamespace("n", in) != nil || none.ForObject(nil) != nil || none.All() != nil ||
		none.Names() != nil {
		t.Error("an empty group is not empty")
	}
}

func FuzzReadOverrides(f *testing.F) {
	f.Add("runtime.capstan.dev/timeout", "3s")
	f.Add("failure-policy.runtime.capstan.dev/gate", "Ignore")
	f.Add("runtime.capstan.dev/object-selector", "a in (b,c),!d")
	f.Fuzz(func(t *testing.T, key, value string) {
		o, err := ReadOverrides(map[string]string{key: value})
		if err != nil {
			return
		}
		if timeout := o.Timeout("gate", time.Second); timeout < time.Second || timeout > MaxTimeout {
			t.Errorf("timeout is %s", timeout)
		}
		o.Objects().Matches(labels.Set{"a": "b"})
	})
}

// An extension can't declare that it depends on another one: no field and no annotation is read for that.
func TestExtensionsDeclareNoDependencies(t *testing.T) {
	var fields []string
	for field := range reflect.TypeFor[runtimev1.ExtensionConfigSpec]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields = append(fields, name)
	}
	if got := strings.Join(fields, " "); got != "clientConfig namespaceSelector settings" {
		t.Errorf("an ExtensionConfig has the fields %s: decide whether one of them declares a dependency", got)
	}
	first := config("a", "x")
	first.Annotations = map[string]string{"runtime.capstan.dev/depends-on": "b", "runtime.capstan.dev/after": "b"}
	if got := names(t, warm(t, first, config("b", "x"))); got != "x.a x.b" {
		t.Errorf("the order is %s", got)
	}
	t.Attr("rule", "RC-20")
}
