package plan

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/paging"
)

// offered returns the versions offered by the Cluster's hosts and by hosts that it may claim, lowest first. A host that
// lists no versions accepts any and adds none.
func offered(ctx context.Context, reader client.Reader, cluster *clusterv1.Cluster) ([]string, error) {
	found := map[string]*version.Version{}
	hosts := 0
	err := paging.List(
		ctx,
		paging.Source{Reader: reader, Namespace: cluster.Namespace, What: "CapstanHosts", By: "the upgrade plan"},
		func() *infrav1.CapstanHostList { return &infrav1.CapstanHostList{} },
		func(list *infrav1.CapstanHostList) int {
			for i := range list.Items {
				host := &list.Items[i]
				hosts++
				if !mayServe(host, cluster) {
					continue
				}
				for _, text := range host.Status.KubernetesVersions {
					if v, err := version.ParseSemantic(text); err == nil { // ignore a malformed version
						found[text] = v
					}
				}
			}
			return hosts
		},
	)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, fmt.Errorf(
			"of %d hosts in namespace %s that the Cluster has or may claim, none names a version of Kubernetes: "+
				"install bundles on them, or list versions in the setting %s",
			hosts,
			cluster.Namespace,
			versionsSetting,
		)
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b string) int {
		switch {
		case found[a].LessThan(found[b]):
			return -1
		case found[b].LessThan(found[a]):
			return 1
		}
		return 0
	}), nil
}

// mayServe reports whether a host belongs to the Cluster or could.
func mayServe(host *infrav1.CapstanHost, cluster *clusterv1.Cluster) bool {
	if claim := host.Spec.Claim; claim != nil && !claim.Released {
		return claim.Cluster == cluster.Name
	}
	return host.DeletionTimestamp.IsZero() && !host.Spec.Closed() && host.Status.Phase != infrav1.HostQuarantined
}
