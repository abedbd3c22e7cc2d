package main

import (
	"context"
	"crypto/tls"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-dev/capstan/plane"
	"github.com/capstan-dev/capstan/runtime/blockevent"
	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/unblock"
)

// runtimeClient makes the client by which the plane calls runtime extensions. Calls go to the journal; blocks that begin and end become Events; what an administrator
// lets through with "hook unblock" goes through.
func (a *app) runtimeClient(mgr ctrl.Manager, info plane.Info, journal *record.Journal) (runtimeclient.Client, error) {
	certificate, err := tls.X509KeyPair(info.PKI.RuntimeClient.Cert, info.PKI.RuntimeClient.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the runtime client's certificate: %w", err)
	}
	known, err := record.Read(a.home.Hooks())
	if err != nil {
		return nil, err
	}
	log := ctrl.Log.WithName("hooks")
	desk := unblock.NewDesk(mgr.GetAPIReader(), mgr.GetClient())
	events, err := blockevent.New(blockevent.Options{
		Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Calls: known, Component: "capstan-hooks", Log: log,
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
		MaxRetryAfter: hookRetry,
		Metrics:       metrics.Registry,
		Certificate:   func() (*tls.Certificate, error) { return &certificate, nil },
		Pass:          desk.Pass,
		Observer: func(call record.Call) {
			if err := journal.Append(call); err != nil {
				log.Error(err, "A hook call was not recorded", "hook", call.Hook)
			}
			events.Observe(call)
		},
	})
}
