package inside

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/local"
	"github.com/capstan-dev/capstan/provider/inventory"
)

// zones are the failure domains that local hosts are spread over.
var zones = []string{"zone-a", "zone-b", "zone-c"}

// registration brings the inventory to its size, once after the start.
type registration struct {
	client client.Client
	hosts  int
}

// Start registers the hosts. A call that fails must not stop the manager: it is tried again until it succeeds or ctx
// ends.
func (r registration) Start(ctx context.Context) error {
	var pause backoff.Backoff
	for {
		err := inventory.Ensure(ctx, r.client, local.Namespace, r.hosts, zones)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		ctrl.Log.WithName("inventory").Error(err, "The hosts were not registered, trying again")
		if pause.Wait(ctx) != nil {
			return nil
		}
	}
}
