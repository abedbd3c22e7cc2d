package inside

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/local"
)

// TestRegistration: calls that fail are tried again with growing pauses, until the inventory has its size.
func TestRegistration(t *testing.T) {
	for name, c := range map[string]struct {
		failures int
		within   time.Duration
		want     int // hosts
	}{
		"at once":                      {0, time.Millisecond, 4},
		"after a failure":              {1, time.Second, 4},
		"after many":                   {12, 4 * time.Minute, 4},
		"the plane stops in the midst": {1000, time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.within)
				defer cancel()
				calls := 0
				plain := fake.NewClientBuilder().WithScheme(local.NewScheme()).Build()
				failing := interceptor.NewClient(plain, interceptor.Funcs{
					List: func(ctx context.Context, c2 client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
						if calls++; calls <= c.failures {
							return errors.New("no answer")
						}
						return c2.List(ctx, list, opts...)
					},
				})
				if err := (registration{client: failing, hosts: 4}).Start(ctx); err != nil {
					t.Errorf("an error stops the manager: %v", err)
				}
				list := &infrav1.CapstanHostList{}
				if err := plain.List(t.Context(), list, client.InNamespace(local.Namespace)); err != nil {
					t.Fatal(err)
				}
				if len(list.Items) != c.want {
					t.Errorf("%d hosts are registered after %d calls, want %d", len(list.Items), calls, c.want)
				}
				if calls > 20 {
					t.Errorf("%d calls: the pauses do not grow", calls)
				}
			})
		})
	}
}
