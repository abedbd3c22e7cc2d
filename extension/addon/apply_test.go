package addon

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/extension/workload"
	"github.com/capstan-dev/capstan/test/apiserver"
)

var api *apiserver.Server

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	s, err := apiserver.Start(apiserver.Options{})
	defer func() {
		if err := s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the API server:", err)
			code = 1
		}
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	api = s
	return m.Run()
}

// cluster returns a client for the API server. Add-ons of earlier tests are gone. The client uses the same kubeconfig
// that the Secret of a workload cluster would contain.
func cluster(t *testing.T) client.Client {
	t.Helper()
	config, err := workload.Config(api.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c, err := workload.Open(config, scheme.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := Apply(context.Background(), c, nil); err != nil {
			t.Error(err)
		}
		c.Close()
	})
	return c
}

func choose(t *testing.T, sources ...corev1.ConfigMap) []Object {
	t.Helper()
	objects, err := Choose(sources, nil, "v1.36.3")
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func mustApply(t *testing.T, c client.Client, objects []Object) Result {
	t.Helper()
	result, err := Apply(t.Context(), c, objects)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func get(t *testing.T, c client.Client, name string) *corev1.ConfigMap {
	t.Helper()
	cm := &corev1.ConfigMap{}
	err := c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, cm)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return cm
}

const thing = "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: one, namespace: shop}\nspec: {size: 3}\n"

const things = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec:
  group: example.org
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// One call applies a definition, an object of its kind, a namespace and an object in it, although they are listed in
// reverse order. A second call has nothing to do.
func TestApplyInOrder(t *testing.T) {
	c := cluster(t)
	objects := choose(t, source("shop", "", "", "", thing, config("x"), things, namespace))
	if result := mustApply(t, c, objects); result.Applied != 4 ||
		len(result.Drift)+len(result.Removed)+len(result.Left) > 0 {
		t.Errorf("got %+v", result)
	}
	first := get(t, c, "x")
	if first == nil || first.Data["colour"] != "red" {
		t.Fatalf("got %v", first)
	}
	if result := mustApply(t, c, objects); result.Applied != 4 ||
		len(result.Drift)+len(result.Removed)+len(result.Left) > 0 {
		t.Errorf("the second time: %+v", result)
	}
	if again := get(t, c, "x"); again.ResourceVersion != first.ResourceVersion {
		t.Error("an unchanged object was written again")
	}
	if missing, superfluous, err := Outstanding(t.Context(), c, objects); err != nil || len(missing)+len(superfluous) > 0 {
		t.Errorf("missing %v, superfluous %v, %v", missing, superfluous, err)
	}
	left := mustApply(t, c, nil)
	if got := fmt.Sprint(left.Removed, left.Left); got != "[ConfigMap shop/x Thing shop/one] [CustomResourceDefinition "+
		"things.example.org Namespace shop]" {
		t.Errorf("removed and left are %s", got)
	}
}

func TestPruneTakesOnlyWhatWasApplied(t *testing.T) {
	for name, c := range map[string]struct {
		before  bool // the object is there before its add-on
		between func(t *testing.T, c client.Client)
		gone    bool
		want    string // removed and left
	}{
		"an applied object is removed": {false, nil, true, "[ConfigMap shop/p] []"},
		"an applied object that was changed is removed": {false, func(t *testing.T, c client.Client) {
			cm := get(t, c, "p")
			cm.Data["more"] = "1"
			if err := c.Update(t.Context(), cm); err != nil {
				t.Error(err)
			}
		}, true, "[ConfigMap shop/p] []"},
		"an object that existed before stays": {true, nil, false, "[] [ConfigMap shop/p]"},
		"an object that somebody else recreated stays": {false, func(t *testing.T, c client.Client) {
			if err := c.Delete(t.Context(), get(t, c, "p")); err != nil {
				t.Error(err)
			}
			if err := c.Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"},
			}); err != nil {
				t.Error(err)
			}
		}, false, "[] [ConfigMap shop/p]"},
		"a recreated object stays although it was applied again": {false, func(t *testing.T, c client.Client) {
			if err := c.Delete(t.Context(), get(t, c, "p")); err != nil {
				t.Error(err)
			}
			if err := c.Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"},
			}); err != nil {
				t.Error(err)
			}
			mustApply(t, c, choose(t, source("shop", "", "", "", namespace, config("stays")),
				source("extra", "", "", "", config("p"))))
		}, false, "[] [ConfigMap shop/p]"},
		"a recreated object stays although the add-on has changed": {false, func(t *testing.T, c client.Client) {
			if err := c.Delete(t.Context(), get(t, c, "p")); err != nil {
				t.Error(err)
			}
			if err := c.Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"},
			}); err != nil {
				t.Error(err)
			}
			mustApply(t, c, choose(t, source("shop", "", "", "", namespace, config("stays")),
				source("extra", "", "", "", strings.ReplaceAll(config("p"), "red", "blue"))))
		}, false, "[] [ConfigMap shop/p]"},
		"an object that was deleted counts as removed": {false, func(t *testing.T, c client.Client) {
			if err := c.Delete(t.Context(), get(t, c, "p")); err != nil {
				t.Error(err)
			}
		}, true, "[ConfigMap shop/p] []"},
	} {
		t.Run(name, func(t *testing.T) {
			w := cluster(t)
			shop := source("shop", "", "", "", namespace, config("stays"))
			mustApply(t, w, choose(t, shop))
			if c.before {
				if err := w.Create(t.Context(), &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"},
				}); err != nil {
					t.Fatal(err)
				}
			}
			t.Cleanup(func() {
				_ = w.Delete(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}})
			})
			mustApply(t, w, choose(t, shop, source("extra", "", "", "", config("p"))))
			if missing, superfluous, err := Outstanding(t.Context(), w, choose(t, shop)); err != nil || len(missing) > 0 ||
				len(superfluous) != 1 {
				t.Errorf("missing %v, superfluous %v, %v", missing, superfluous, err)
			}
			if c.between != nil {
				c.between(t, w)
			}
			result := mustApply(t, w, choose(t, shop))
			if got := fmt.Sprint(result.Removed, result.Left); got != c.want {
				t.Errorf("removed and left are %s, want %s", got, c.want)
			}
			if (get(t, w, "p") == nil) != c.gone {
				t.Errorf("the object should be gone: %t", c.gone)
			}
			if get(t, w, "stays") == nil {
				t.Error("an object that is still wanted was removed")
			}
		})
	}
}

func TestDrift(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.ConfigMap) // nil deletes it
		again  bool                    // recreate it after that
		want   string
	}{
		"a changed field": {func(cm *corev1.ConfigMap) { cm.Data["colour"] = "blue" }, false,
			"[{ConfigMap shop/d changed}]"},
		"a removed field":    {func(cm *corev1.ConfigMap) { cm.Data = nil }, false, "[{ConfigMap shop/d changed}]"},
		"a field of others":  {func(cm *corev1.ConfigMap) { cm.Data["more"] = "1" }, false, "[]"},
		"a deleted object":   {nil, false, "[{ConfigMap shop/d missing}]"},
		"a recreated object": {nil, true, "[{ConfigMap shop/d made again}]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := cluster(t)
			t.Cleanup(func() {
				_ = w.Delete(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "d"}})
			})
			objects := choose(t, source("shop", "", "", "", namespace, config("d")))
			mustApply(t, w, objects)
			cm := get(t, w, "d")
			var err error
			if c.change != nil {
				c.change(cm)
				err = w.Update(t.Context(), cm)
			} else {
				err = w.Delete(t.Context(), cm)
			}
			if c.again && err == nil {
				err = w.Create(t.Context(), &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "d"}, Data: map[string]string{"colour": "red"},
				})
			}
			if err != nil {
				t.Fatal(err)
			}
			before := get(t, w, "d")
			seen, err := Inspect(t.Context(), w, objects)
			if got := fmt.Sprint(seen); err != nil || got != c.want {
				t.Errorf("Inspect returns %s, %v, want %s", got, err, c.want)
			}
			if after := get(t, w, "d"); (after == nil) != (before == nil) ||
				after != nil && after.ResourceVersion != before.ResourceVersion {
				t.Error("Inspect has changed the object")
			}
			if got := fmt.Sprint(mustApply(t, w, objects).Drift); got != c.want {
				t.Errorf("Apply returns %s, want %s", got, c.want)
			}
			if cm := get(t, w, "d"); cm == nil || cm.Data["colour"] != "red" {
				t.Errorf("the object was not corrected: %v", cm)
			}
		})
	}
}

// Changed content is not drift.
func TestAChangeOfTheAddOnIsNoDrift(t *testing.T) {
	w := cluster(t)
	mustApply(t, w, choose(t, source("shop", "", "", "", namespace, config("c"))))
	objects := choose(t, source("shop", "", "", "", namespace, strings.ReplaceAll(config("c"), "red", "blue")))
	if missing, _, err := Outstanding(t.Context(), w, objects); err != nil || len(missing) != 1 {
		t.Errorf("missing %v, %v", missing, err)
	}
	if result := mustApply(t, w, objects); len(result.Drift) > 0 || get(t, w, "c").Data["colour"] != "blue" {
		t.Errorf("got %+v", result)
	}
}

// failing allows a number of writes and fails all others, like a process that dies.
type failing struct {
	client.Client
	left int
}

func (f *failing) pass() error {
	if f.left--; f.left < 0 {
		return fmt.Errorf("gone")
	}
	return nil
}

func (f *failing) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if err := f.pass(); err != nil {
		return err
	}
	return f.Client.Create(ctx, o, opts...)
}

func (f *failing) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if err := f.pass(); err != nil {
		return err
	}
	return f.Client.Update(ctx, o, opts...)
}

func (f *failing) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	if err := f.pass(); err != nil {
		return err
	}
	return f.Client.Apply(ctx, o, opts...)
}

func (f *failing) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if err := f.pass(); err != nil {
		return err
	}
	return f.Client.Delete(ctx, o, opts...)
}

// The process dies after each write in turn. Repeating the call always completes, and nothing that was applied is
// forgotten.
func TestDyingAtAnyMoment(t *testing.T) {
	w := cluster(t)
	shop := source("shop", "", "", "", namespace)
	with := choose(t, shop, source("extra", "", "", "", config("f1"), config("f2")))
	for writes := range 12 {
		f := &failing{Client: w, left: writes}
		_, firstErr := Apply(t.Context(), f, with)
		mustApply(t, w, with)
		f = &failing{Client: w, left: writes}
		_, secondErr := Apply(t.Context(), f, choose(t, shop))
		result := mustApply(t, w, choose(t, shop))
		if get(t, w, "f1") != nil || get(t, w, "f2") != nil {
			t.Errorf("after %d writes (%v, %v): %+v, and an object stayed", writes, firstErr, secondErr, result)
		}
		if firstErr == nil && secondErr == nil {
			if writes < 3 {
				t.Errorf("nothing failed after %d writes", writes)
			}
			return
		}
	}
	t.Error("a call that may write twelve times fails")
}

// Apply waits for a definition that is never established only as long as its caller waits.
func TestADefinitionThatIsNotServed(t *testing.T) {
	w := cluster(t)
	// another definition has this kind already
	second := strings.NewReplacer("things.example.org", "others.example.org", "plural: things",
		"plural: others").Replace(things)
	mustApply(t, w, choose(t, source("a", "", "", "", things)))
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	_, err := Apply(ctx, w, choose(t, source("a", "", "", "", things), source("b", "", "", "", second)))
	if err == nil || !strings.Contains(err.Error(),
		"CustomResourceDefinition others.example.org of b/a.yaml is not served yet") {
		t.Errorf("error is %v", err)
	}
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName("others.example.org")
	if err := w.Delete(t.Context(), crd); err != nil {
		t.Error(err)
	}
}

func TestAnInventoryThatCanNotBeRead(t *testing.T) {
	w := cluster(t)
	broken := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: InventoryNamespace, Name: InventoryName},
		Data:       map[string]string{inventoryKey: "{"},
	}
	_ = w.Delete(t.Context(), broken.DeepCopy()) // left by an earlier test
	if err := w.Create(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	_, err := Apply(t.Context(), w, choose(t, source("shop", "", "", "", namespace)))
	if err == nil || !strings.Contains(err.Error(), "delete it to have it recreated") {
		t.Errorf("error is %v", err)
	}
	if err := w.Delete(t.Context(), broken); err != nil {
		t.Error(err)
	}
}
