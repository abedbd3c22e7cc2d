package hooks

import (
	"context"
	"fmt"
	"net"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-dev/capstan/plane/pki"
	"github.com/capstan-dev/capstan/runtime/blockevent"
	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/unblock"
)

// ClientOptions configure [NewClient].
type ClientOptions struct {
	// Certificate is the client certificate for the servers of extensions. Required.
	Certificate pki.Pair
	// Journal records the calls. Required.
	Journal *record.Journal
	// Known are the calls that the journal contained when the plane started, oldest first.
	Known []record.Call
	// Dial opens connections to servers. Default: the Runtime SDK's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// MaxRetryAfter bounds the wait for a handler that blocks. Default: the Runtime SDK's.
	MaxRetryAfter time.Duration
}

// NewClient returns the client with which a plane calls runtime extensions. The client records calls in the journal,
// emits an Event for the Cluster when a block begins or ends, and lets Clusters pass that an administrator has
// unblocked with [Unblocking].
func NewClient(mgr ctrl.Manager, o ClientOptions) (runtimeclient.Client, error) {
	if _, err := o.Certificate.Current(); err != nil {
		return nil, fmt.Errorf("making the runtime client: %w", err)
	}
	log := ctrl.Log.WithName("hooks")
	desk := unblock.NewDesk(mgr.GetAPIReader(), mgr.GetClient())
	events, err := blockevent.New(blockevent.Options{
		Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Calls: o.Known, Component: "capstan-hooks", Log: log,
		Over: func(ctx context.Context, cluster *clusterv1.Cluster, hook string) error {
			return desk.Clear(ctx, cluster, hook)
		},
	})
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(events); err != nil {
		return nil, fmt.Errorf("adding the writer of Events: %w", err)
	}
	return client.New(client.Options{
		Reader:        mgr.GetClient(),
		MaxRetryAfter: o.MaxRetryAfter,
		Dial:          o.Dial,
		Metrics:       metrics.Registry,
		Certificate:   o.Certificate.Current,
		Pass:          desk.Pass,
		Observer: func(call record.Call) {
			if err := o.Journal.Append(call); err != nil {
				log.Error(err, "A hook call was not recorded", "hook", call.Hook)
			}
			events.Observe(call)
		},
	})
}
