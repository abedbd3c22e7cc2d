package main

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/describe"
	"github.com/capstan-dev/capstan/local"
)

// place returns the location of the local management plane.
func (a *app) place() local.Place {
	return local.Place{Home: string(a.home), Binaries: string(a.bin)}
}

// client connects to the management plane.
func (a *app) client() (client.WithWatch, error) { return local.Connect(string(a.home)) }

// status returns the current status of the management plane.
func (a *app) status(ctx context.Context) (local.PlaneStatus, error) {
	return local.Status(ctx, a.place())
}

// cluster gets a Cluster by name; the error for an unknown name lists the existing ones.
func (a *app) cluster(ctx context.Context, c client.Reader, name string) (*clusterv1.Cluster, error) {
	return describe.Find(ctx, c, a.key(name))
}
