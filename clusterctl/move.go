package clusterctl

import (
	"context"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// MayMove fails if the clusters of a namespace can't move to another management cluster, before anything is written: that is this one, or doesn't answer, or
// machines are on local hosts, which are processes of this plane's dock. An empty target stands for a dry run, which has none.
func (c *Client) MayMove(ctx context.Context, namespace string, target upstream.Kubeconfig) error {
	source, err := connect(c.Kubeconfig)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*answerTimeout)
	defer cancel()
	if target.Path != "" {
		if _, err := os.Stat(target.Path); err != nil {
			return fmt.Errorf("looking for the kubeconfig of the target: %w", err)
		}
		there, err := connect(target)
		if err != nil {
			return fmt.Errorf("the target: %w", err)
		}
		from, err := clusterID(ctx, source)
		if err != nil {
			return fmt.Errorf("asking the source which cluster it is: %w", err)
		}
		to, err := clusterID(ctx, there)
		if err != nil {
			return fmt.Errorf("asking the target which cluster it is: %w", err)
		}
		if from == to {
			return fmt.Errorf("source and target are the same management cluster: %s leads to where the clusters are already", target.Path)
		}
	}
	return noLocalHosts(ctx, source, namespace)
}

// clusterID returns what tells API servers apart, by whatever name they are reached.
func clusterID(ctx context.Context, c client.Client) (types.UID, error) {
	namespace := &corev1.Namespace{}
	err := c.Get(ctx, types.NamespacedName{Name: "kube-system"}, namespace)
	return namespace.UID, err
}

// noLocalHosts fails if a machine of the namespace is on a local host.
func noLocalHosts(ctx context.Context, c client.Client, namespace string) error {
	hosts := &infrav1.CapstanHostList{}
	if err := c.List(ctx, hosts, client.InNamespace(namespace)); err != nil {
		if noMatch(err) {
			return nil // no Capstan here
		}
		return fmt.Errorf("listing hosts: %w", err)
	}
	var stay []string
	for _, h := range hosts.Items {
		if h.Spec.Supplier != "" && h.Spec.Claim != nil {
			stay = append(stay, fmt.Sprintf("%s (cluster %s)", h.Name, h.Spec.Claim.Cluster))
		}
	}
	if len(stay) > 0 {
		return fmt.Errorf("local hosts are processes of this plane and can't move with their clusters: %s; move owned hosts, or make the clusters anew in the target", strings.Join(stay, ", "))
	}
	return nil
}
