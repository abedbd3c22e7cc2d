package addon

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Wanted returns the objects of all add-ons for a Cluster, and whether its namespace has any add-on.
func Wanted(
	ctx context.Context, reader client.Reader, cluster *clusterv1.Cluster, version string,
) (objects []Object, any bool, err error) {
	list := &corev1.ConfigMapList{}
	err = reader.List(ctx, list,
		client.InNamespace(cluster.Namespace), client.HasLabels{Label}, client.Limit(MaxSources))
	if err != nil {
		return nil, false, fmt.Errorf("listing ConfigMaps with label %s: %w", Label, err)
	}
	if list.Continue != "" {
		return nil, false, fmt.Errorf("the namespace has more than %d ConfigMaps with label %s: "+
			"add-ons are read from at most that many", MaxSources, Label)
	}
	if len(list.Items) == 0 {
		return nil, false, nil
	}
	if objects, err = Choose(list.Items, cluster.Labels, version); err != nil {
		return nil, true, fmt.Errorf("reading add-ons: %w", err)
	}
	return objects, true, nil
}
