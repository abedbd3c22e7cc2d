package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (a *app) clusterKubeconfigCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kubeconfig NAME", Short: "Print a kubeconfig with which this machine reaches a cluster", Args: cobra.ExactArgs(1),
		Example:           "  capstan cluster kubeconfig demo > demo.kubeconfig",
		ValidArgsFunction: a.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := a.clusterKubeconfig(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("reading the kubeconfig of cluster %s: %w", args[0], err)
			}
			_, err = a.out.Write(data)
			return err
		},
	}
}

// clusterKubeconfig writes the kubeconfig of a cluster into the home directory and returns its path. The server is a relay on
// loopback, because the cluster's own address is reachable only inside the dock.
func (a *app) clusterKubeconfig(ctx context.Context, name string) (string, error) {
	c, err := a.client()
	if err != nil {
		return "", err
	}
	cluster, err := a.cluster(ctx, c, name)
	if err != nil {
		return "", err
	}
	secret := &corev1.Secret{}
	err = c.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: name + "-kubeconfig"}, secret)
	if apierrors.IsNotFound(err) || (err == nil && cluster.Spec.ControlPlaneEndpoint.IsZero()) {
		return "", hint("see how far it is: capstan cluster describe "+name, "cluster %s has no kubeconfig yet", name)
	}
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig of cluster %s: %w", name, err)
	}
	config, err := clientcmd.Load(secret.Data["value"])
	if err != nil {
		return "", fmt.Errorf("parsing the kubeconfig of cluster %s: %w", name, err)
	}
	endpoint := cluster.Spec.ControlPlaneEndpoint
	relay, err := a.dock().EnsureRelay(ctx, relayName(a.namespace, name), fmt.Sprintf("%s:%d", endpoint.Host, endpoint.Port))
	if err != nil {
		return "", hint("run: capstan up", "opening a way to cluster %s: %w", name, err)
	}
	for _, server := range config.Clusters {
		// The certificate is for the endpoint, not for the relay.
		server.Server, server.TLSServerName = "https://"+relay, endpoint.Host
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return "", fmt.Errorf("encoding the kubeconfig of cluster %s: %w", name, err)
	}
	path := a.home.ClusterKubeconfig(a.namespace, name)
	if err := writeSecret(path, data); err != nil {
		return "", fmt.Errorf("writing the kubeconfig of cluster %s: %w", name, err)
	}
	return path, nil
}

// newPrefix begins the names of files that are being written.
const newPrefix = ".new-"

// writeSecret writes a file with mode 0600 by renaming, so that nobody sees half of it.
func writeSecret(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), newPrefix+"*") // mode 0600
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	if closeErr := temp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		os.Remove(temp.Name())
	}
	return err
}
