package describe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/hint"
)

// Find gets a Cluster. If it does not exist, the error names the existing Clusters.
func Find(ctx context.Context, c client.Reader, cluster client.ObjectKey) (*clusterv1.Cluster, error) {
	found := &clusterv1.Cluster{}
	err := c.Get(ctx, cluster, found)
	if err == nil {
		return found, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("getting cluster %s: %w", cluster.Name, err)
	}
	list := &clusterv1.ClusterList{}
	if err := c.List(ctx, list, client.InNamespace(cluster.Namespace)); err != nil {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, hint.Errorf("run: capstan cluster create "+cluster.Name,
			"there is no cluster %q in namespace %s, and no other", cluster.Name, cluster.Namespace)
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	slices.Sort(names)
	return nil, hint.Errorf("clusters that exist: "+strings.Join(names, ", "),
		"there is no cluster %q in namespace %s", cluster.Name, cluster.Namespace)
}
