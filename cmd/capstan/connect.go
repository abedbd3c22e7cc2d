package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// newScheme has the types that the command line works with.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, controlplanev1.AddToScheme, infrav1.AddToScheme, runtimev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err) // two types under one name: a mistake in the program
		}
	}
	return scheme
}

// client connects to the management plane.
func (a *app) client() (client.WithWatch, error) {
	if _, err := os.Stat(a.home.Kubeconfig()); errors.Is(err, os.ErrNotExist) {
		return nil, hint("run: capstan up", "no management plane in %s", a.home)
	}
	config, err := clientcmd.BuildConfigFromFlags("", a.home.Kubeconfig())
	if err != nil {
		return nil, hint("run: capstan up", "reading %s: %w", a.home.Kubeconfig(), err)
	}
	config.QPS, config.Burst = 100, 200
	c, err := client.NewWithWatch(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return nil, hint("run: capstan up", "connecting to the management plane: %w", err)
	}
	return c, nil
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
		return nil, hint("run: capstan cluster create "+name, "there is no cluster %q in namespace %s, and no other", name, a.namespace)
	}
	return nil, hint("clusters that exist: "+strings.Join(names, ", "), "there is no cluster %q in namespace %s", name, a.namespace)
}
