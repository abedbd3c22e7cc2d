package inside

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/local"
	"github.com/capstan-dev/capstan/provider/inventory"
)

// TestRegistration: failed steps are repeated with growing pauses, until the inventory is complete.
func TestRegistration(t *testing.T) {
	for name, c := range map[string]struct {
		failures int
		within   time.Duration
		want     int // number of hosts
	}{
		"no step fails":                       {0, 3 * time.Second, 4},
		"the first step fails":                {1, 4 * time.Second, 4},
		"many steps fail":                     {12, 4 * time.Minute, 4},
		"the plane stops before a step works": {1000, time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.within)
				defer cancel()
				plain := fake.NewClientBuilder().WithScheme(local.NewScheme()).Build()
				register, err := inventory.OpenRegister(ctx, plain, plain)
				if err != nil {
					t.Fatal(err)
				}
				calls := 0
				failing := interceptor.NewClient(plain, interceptor.Funcs{
					List: func(ctx context.Context, c2 client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
						if _, ofHosts := list.(*infrav1.CapstanHostList); ofHosts {
							if calls++; calls <= c.failures {
								return errors.New("no answer")
							}
						}
						return c2.List(ctx, list, opts...)
					},
				})
				keeper, err := inventory.New(inventory.Options{
					Client: failing, Reader: plain, Register: register, Supplier: supplier{dock: &fakeHosts{}},
					Budget: 4, Zones: zones, Clock: clock.RealClock{},
				})
				if err != nil {
					t.Fatal(err)
				}
				work(ctx, registration{keeper})
				list := &infrav1.CapstanHostList{}
				if err := plain.List(t.Context(), list, client.InNamespace(local.Namespace)); err != nil {
					t.Fatal(err)
				}
				if len(list.Items) != c.want {
					t.Errorf("%d hosts are registered after %d calls, want %d", len(list.Items), calls, c.want)
				}
				if calls > 20 {
					t.Errorf("there were %d calls, so the pauses do not grow", calls)
				}
			})
		})
	}
}

// work acts as the queue of a controller without events, until the registration is settled or ctx ends.
func work(ctx context.Context, r registration) {
	limiter := pauses()
	for ctx.Err() == nil {
		pause := time.Duration(0)
		result, err := r.Reconcile(ctx, reconcile.Request{})
		switch {
		case err != nil:
			pause = limiter.When(reconcile.Request{})
		case result.RequeueAfter == 0:
			return
		default:
			limiter.Forget(reconcile.Request{})
			pause = result.RequeueAfter
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
