package main

import (
	"context"
	"fmt"
	"sort"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/local"
)

// place is where the local management plane is.
func (a *app) place() local.Place {
	return local.Place{Home: string(a.home), Binaries: string(a.bin)}
}

// client connects to the management plane.
func (a *app) client() (client.WithWatch, error) { return local.Connect(string(a.home)) }

// dock connects to the dock, which need not run.
func (a *app) dock() *dock.Client { return dock.Connect(string(a.home)) }

// status describes the management plane as it is now.
func (a *app) status(ctx context.Context) (local.PlaneStatus, error) {
	return local.Status(ctx, a.place())
}

// newScheme has the types that the command line works with.
func newScheme() *runtime.Scheme { return local.NewScheme() }

// relayName is the name of the relay of a cluster in the dock.
func relayName(namespace, cluster string) string { return local.RelayName(namespace, cluster) }

// lockFile waits until nobody else holds a file; others are what may.
func (a *app) lockFile(ctx context.Context, path, others string) (unlock func(), err error) {
	return local.LockFile(ctx, path, others, a.progress())
}

// cluster gets a Cluster by name; an unknown name is answered with those that exist.
func (a *app) cluster(ctx context.Context, c client.Client, name string) (*clusterv1.Cluster, error) {
	cluster := &clusterv1.Cluster{}
	err := c.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: name}, cluster)
	if err == nil {
		return cluster, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("getting cluster %s: %w", name, err)
	}
	list := &clusterv1.ClusterList{}
	if err := c.List(ctx, list, client.InNamespace(a.namespace)); err != nil {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	names := make([]string, 0, len(list.Items))
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	sort.Strings(names)
	if len(names) == 0 {
		return nil, hint("run: capstan cluster create "+name, "there is no cluster %q in namespace %s, and no other", name,
			a.namespace)
	}
	return nil, hint("clusters that exist: "+strings.Join(names, ", "), "there is no cluster %q in namespace %s", name,
		a.namespace)
}
