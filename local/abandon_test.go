package local

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/hint"
)

func TestAbandonable(t *testing.T) {
	released, held := &infrav1.HostClaim{Machine: "m", Released: true}, &infrav1.HostClaim{Machine: "m"}
	for name, c := range map[string]struct {
		supplier string
		claim    *infrav1.HostClaim
		online   metav1.ConditionStatus
		want     string
	}{
		"a dead host that a machine waits for": {claim: released, online: metav1.ConditionFalse},
		"a host that has not reported":         {claim: released, want: "is online"},
		"a host whose agent cleans it":         {claim: released, online: metav1.ConditionTrue, want: "wait for it"},
		"a dead host that is in use":           {claim: held, online: metav1.ConditionFalse, want: "in use by machine m"},
		"a dead host that is free":             {online: metav1.ConditionFalse, want: "no machine"},
		"a local host": {supplier: infrav1.SupplierDock, claim: released,
			online: metav1.ConditionFalse, want: "local"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &infrav1.CapstanHost{}
			h.Name, h.Spec.Supplier, h.Spec.Claim = "old", c.supplier, c.claim
			if c.online != "" {
				h.Status.Conditions = []metav1.Condition{{Type: infrav1.HostOnlineCondition, Status: c.online}}
			}
			err := abandonable(h)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestAbandon: a host is given up for the machine that waits for it, and only if the host has not changed since it was
// read.
func TestAbandon(t *testing.T) {
	dead := &infrav1.CapstanHost{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "old"}}
	dead.Spec.Claim = &infrav1.HostClaim{Machine: "m", Released: true, ProviderID: "capstan://default/old"}
	dead.Status.Conditions = []metav1.Condition{{Type: infrav1.HostOnlineCondition, Status: metav1.ConditionFalse}}
	free := &infrav1.CapstanHost{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "free"}}
	key := client.ObjectKeyFromObject(dead)
	var refusal error
	c := fake.NewClientBuilder().WithScheme(NewScheme()).WithObjects(dead, free).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			if refusal != nil {
				return refusal
			}
			if data, err := p.Data(o); err != nil || !strings.Contains(string(data), "resourceVersion") {
				t.Errorf("the patch %s would also apply to another version of the host: error %v", data, err)
			}
			return c.Patch(ctx, o, p, opts...)
		},
	}).Build()

	if names, err := AbandonableHosts(t.Context(), c, "default"); err != nil || !slices.Equal(names, []string{"old"}) {
		t.Errorf("the hosts that can be given up are %q, error %v", names, err)
	}
	if _, err := Abandon(t.Context(), c, client.ObjectKey{Namespace: "default", Name: "none"}); err == nil ||
		hint.Of(err) == "" {
		t.Errorf("giving up a host that does not exist: got error %v, want one with a hint", err)
	}
	if _, err := Abandon(t.Context(), c, client.ObjectKeyFromObject(free)); err == nil {
		t.Error("a free host was given up, want an error")
	}
	refusal = errors.New("the object has been modified")
	if _, err := Abandon(t.Context(), c, key); !errors.Is(err, refusal) || hint.Of(err) == "" {
		t.Errorf("giving up a host that has changed since: got %v, want the patch's error with a hint", err)
	}
	refusal = nil
	machine, err := Abandon(t.Context(), c, key)
	if err != nil || machine != "m" {
		t.Fatalf("machine %q, error %v", machine, err)
	}
	got := &infrav1.CapstanHost{}
	if err := c.Get(t.Context(), key, got); err != nil ||
		got.Annotations[infrav1.AbandonAnnotation] != "capstan://default/old" {
		t.Errorf("the annotations of the host are %v, error %v", got.Annotations, err)
	}
}
