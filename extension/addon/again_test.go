package addon

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestTheSameUnderAnotherName: a manifest with a namespace and one without can mean the same object. Apply keeps that
// object when the manifest changes from one form to the other, and removes it once it is no longer wanted.
func TestTheSameUnderAnotherName(t *testing.T) {
	const in, without = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: again, namespace: default}\n",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: again}\n"
	const role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: again}\n"
	for name, c := range map[string]struct {
		first, second string
		object        client.Object
	}{
		"a namespace is written out": {without, in, &corev1.ConfigMap{}},
		"a namespace is left out":    {in, without, &corev1.ConfigMap{}},
		"a namespace is written out for a cluster-scoped kind": {
			role, strings.Replace(role, "again}", "again, namespace: default}", 1), &rbacv1.ClusterRole{},
		},
		"a namespace is left out for a cluster-scoped kind": {
			strings.Replace(role, "again}", "again, namespace: default}", 1), role, &rbacv1.ClusterRole{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := cluster(t)
			key := client.ObjectKey{Name: "again"}
			if _, is := c.object.(*corev1.ConfigMap); is {
				key.Namespace = "default"
			}
			mustApply(t, w, choose(t, source("a", "", "", "", c.first)))
			if err := w.Get(t.Context(), key, c.object); err != nil {
				t.Fatal(err)
			}
			uid := c.object.GetUID()
			objects := choose(t, source("a", "", "", "", c.second))
			for range 2 {
				if result := mustApply(t, w, objects); len(result.Removed)+len(result.Left)+len(result.Drift) > 0 {
					t.Errorf("got %+v", result)
				}
			}
			if err := w.Get(t.Context(), key, c.object); err != nil || c.object.GetUID() != uid {
				t.Fatalf("the object has uid %s, %v; it had %s", c.object.GetUID(), err, uid)
			}
			if missing, superfluous, err := Outstanding(t.Context(), w, objects); err != nil ||
				len(missing)+len(superfluous) > 0 {
				t.Errorf("missing %v, superfluous %v, %v", missing, superfluous, err)
			}
			if _, err := Apply(t.Context(), w, choose(t, source("a", "", "", "", c.first),
				source("b", "", "", "", c.second))); err == nil || !strings.Contains(err.Error(), "twice") {
				t.Errorf("the error for both forms at the same time is %v", err)
			}
			if result := mustApply(t, w, nil); len(result.Removed) != 1 {
				t.Errorf("once the object is no longer wanted: %+v", result)
			}
			if _, err := Apply(t.Context(), w, choose(t, source("a", "", "", "", c.first),
				source("b", "", "", "", c.second))); err == nil || !strings.Contains(err.Error(), "twice") {
				t.Errorf("the error for both forms from the start is %v", err)
			}
		})
	}
}

// slow allows a number of writes before the deadline passes.
type slow struct {
	client.Client
	writes int
}

func (s *slow) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	if s.writes--; s.writes < 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Client.Apply(ctx, o, opts...)
}

// TestLittleTime: each call makes progress, even if the time never suffices for everything. Objects that could not be
// compared in time are not an error.
func TestLittleTime(t *testing.T) {
	w := cluster(t)
	documents := []string{namespace}
	for i := range 40 {
		documents = append(documents, config(fmt.Sprint("little-", i)))
	}
	objects := choose(t, source("shop", "", "", "", documents...))
	apply := func(objects []Object) (Result, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		return Apply(ctx, &slow{w, 15}, objects)
	}
	calls := 0
	var result Result
	var err error
	for result, err = apply(objects); err != nil; result, err = apply(objects) {
		if calls++; calls > 5 {
			t.Fatalf("after %d calls: %+v, %v", calls, result, err)
		}
	}
	if calls == 0 {
		t.Error("the first call had time for all objects, so the test shows nothing")
	}
	if missing, _, err := Outstanding(t.Context(), w, objects); err != nil || len(missing) > 0 {
		t.Errorf("missing %v, %v", missing, err)
	}
	if result, err := apply(objects); err != nil || result.Unseen == 0 || result.Unseen+result.Applied != len(objects) {
		t.Errorf("once all objects are applied: %+v, %v", result, err)
	}
	// New objects come before those that are only compared.
	more := choose(t, source("shop", "", "", "", append(documents, config("zz-new"))...))
	if _, err := apply(more); err != nil || get(t, w, "zz-new") == nil {
		t.Errorf("a new object was not applied: %v", err)
	}
}

// refusing refuses writes of one object until another has its wanted content, like a webhook whose Deployment is
// broken.
type refusing struct {
	client.Client
	what, until string
}

func (r refusing) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	if named, is := o.(interface{ GetName() string }); is && named.GetName() == r.what {
		cm := &corev1.ConfigMap{}
		if err := r.Get(ctx, client.ObjectKey{Namespace: "shop", Name: r.until}, cm); err != nil ||
			cm.Data["colour"] != "red" {
			return fmt.Errorf("failed calling webhook: %w", err)
		}
	}
	return r.Client.Apply(ctx, o, opts...)
}

// TestWhatIsNewNeedsWhatHasDrifted: a new object that is refused does not prevent the repair of drift.
func TestWhatIsNewNeedsWhatHasDrifted(t *testing.T) {
	w := cluster(t)
	before := choose(t, source("shop", "", "", "", namespace, config("gate")))
	mustApply(t, w, before)
	broken := get(t, w, "gate")
	broken.Data["colour"] = "none"
	if err := w.Update(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	objects := choose(t, source("shop", "", "", "", namespace, config("gate"), config("admitted")))
	r := refusing{w, "admitted", "gate"}
	if _, err := Apply(t.Context(), r, objects); err == nil {
		t.Fatal("the first call is not refused, so the test shows nothing")
	}
	if _, err := Apply(t.Context(), r, objects); err != nil || get(t, w, "admitted") == nil {
		t.Errorf("the second call: %v", err)
	}
}
