// Package workload changes a machine's objects in its workload cluster. It uses the kubeconfig that Cluster API keeps
// for the cluster in the Secret <cluster>-kubeconfig.
package workload

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// timeout limits each request to a workload cluster.
const timeout = 5 * time.Second

// Nodes deletes Nodes of workload clusters.
type Nodes struct {
	// Reader reads Secrets from the API server of the management cluster. Required.
	Reader client.Reader
	// Config turns a kubeconfig into a client configuration. It must not trust the text: anybody who may write Secrets in
	// the namespace of the cluster can write it. Required.
	Config func(kubeconfig []byte) (*rest.Config, error)
}

// Delete deletes the named Node of a cluster if it has this provider id. It returns nil if there is no such Node, or no
// kubeconfig for the cluster.
func (n *Nodes) Delete(ctx context.Context, cluster client.ObjectKey, name, providerID string) error {
	nodes, err := n.of(ctx, cluster)
	if err != nil || nodes == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*timeout)
	defer cancel()
	node, err := nodes.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading Node %s of cluster %s: %w", name, cluster, err)
	case node.Spec.ProviderID != providerID:
		return nil // the Node belongs to another machine of the same name
	}
	err = nodes.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(node.UID))})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Node %s of cluster %s: %w", name, cluster, err)
	}
	return nil
}

// of returns a client for the Nodes of a cluster, or nil if the cluster has no kubeconfig.
func (n *Nodes) of(ctx context.Context, cluster client.ObjectKey) (corev1client.NodeInterface, error) {
	s := &corev1.Secret{}
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, secret.Kubeconfig)}
	if err := n.Reader.Get(ctx, key, s); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	config, err := n.Config(s.Data[secret.KubeconfigDataName])
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig in Secret %s is refused: %w", key, err)
	}
	config.Timeout = timeout
	config.UserAgent = "capstan"
	c, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for cluster %s: %w", cluster, err)
	}
	return c.Nodes(), nil
}
