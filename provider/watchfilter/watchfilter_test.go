package watchfilter

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestMatches(t *testing.T) {
	for name, c := range map[string]struct {
		filter Filter
		labels map[string]string
		want   bool
	}{
		"without a filter, an object without label matches": {want: true},
		"without a filter, an object with a label matches": {labels: map[string]string{clusterv1.WatchLabel: "x"},
			want: true},
		"a filter excludes an object without label": {filter: "x"},
		"a filter excludes an object with another value": {filter: "x",
			labels: map[string]string{clusterv1.WatchLabel: "y"}},
		"a filter matches an object with its value, IM-66": {
			filter: "x", labels: map[string]string{clusterv1.WatchLabel: "x"}, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1.Cluster{}
			cluster.Labels = c.labels
			if got := c.filter.Matches(cluster); got != c.want {
				t.Errorf("matches %t, want %t", got, c.want)
			}
		})
	}
}
