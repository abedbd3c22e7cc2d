// Package watchfilter limits controllers to objects with a certain label, so that several instances of the provider can
// share a management cluster without touching each other's objects (contract rules IC-40 and IM-66).
package watchfilter

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Filter is the required value of the label cluster.x-k8s.io/watch-filter. The empty Filter matches every object.
type Filter string

// Matches reports whether the object is for this instance of the provider.
func (f Filter) Matches(object client.Object) bool {
	return f == "" || object.GetLabels()[clusterv1.WatchLabel] == string(f)
}
