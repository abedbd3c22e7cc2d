package patch

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// api returns a client with one host, and a counter of its writes.
func api(t *testing.T) (client.Client, *int) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := infrav1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	writes := 0
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&infrav1.CapstanHost{}).
		WithObjects(&infrav1.CapstanHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "host-01", Labels: map[string]string{"foreign": "stays"}},
			Spec:       infrav1.CapstanHostSpec{Zone: "zone-a"},
		}).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			writes++
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}).Build()
	return c, &writes
}

func read(t *testing.T, c client.Client) *infrav1.CapstanHost {
	t.Helper()
	h := &infrav1.CapstanHost{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "host-01"}, h); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestNothingIsWrittenWithoutADifference(t *testing.T) {
	c, writes := api(t)
	h := read(t, c)
	for _, lock := range []Lock{Locked, Unlocked} {
		if err := Object(t.Context(), c, h.DeepCopy(), h, lock); err != nil {
			t.Fatal(err)
		}
		if err := Status(t.Context(), c, h.DeepCopy(), h, lock); err != nil {
			t.Fatal(err)
		}
	}
	if *writes != 0 {
		t.Errorf("%d writes without a difference", *writes)
	}
}

func TestOnlyTheDifferenceIsWritten(t *testing.T) {
	c, writes := api(t)
	ours, theirs := read(t, c), read(t, c)
	theirs.Labels["theirs"] = "too"
	if err := c.Update(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	before := ours.DeepCopy()
	ours.Spec.Unschedulable = true
	if err := Object(t.Context(), c, before, ours, Unlocked); err != nil {
		t.Fatal(err)
	}
	before = ours.DeepCopy()
	ours.Status.Phase = infrav1.HostOff
	if err := Status(t.Context(), c, before, ours, Unlocked); err != nil {
		t.Fatal(err)
	}
	got := read(t, c)
	if got.Labels["foreign"] != "stays" || got.Labels["theirs"] != "too" || !got.Spec.Unschedulable ||
		got.Status.Phase != infrav1.HostOff {
		t.Errorf("something was lost (IM-56): %+v", got)
	}
	if *writes != 2 {
		t.Errorf("%d writes, want 2", *writes)
	}
	t.Attr("rule", "IM-56 v1beta2")
	t.Attr("rule", "IC-52 v1beta2")
}

func TestALockedPatchOfAnOldObjectIsAConflict(t *testing.T) {
	c, _ := api(t)
	old, newer := read(t, c), read(t, c)
	newer.Spec.Unschedulable = true
	if err := c.Update(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	before := old.DeepCopy()
	old.Spec.Claim = &infrav1.HostClaim{Machine: "m"}
	if err := Object(t.Context(), c, before, old, Locked); !apierrors.IsConflict(err) {
		t.Errorf("patching an old object gave %v, want a conflict", err)
	}
	before = old.DeepCopy()
	old.Status.Phase = infrav1.HostOff
	if err := Status(t.Context(), c, before, old, Locked); !apierrors.IsConflict(err) {
		t.Errorf("patching the status of an old object gave %v, want a conflict", err)
	}
	if got := read(t, c); got.Spec.Claim != nil || got.Status.Phase != "" {
		t.Errorf("a refused patch had an effect: %+v", got)
	}
}
