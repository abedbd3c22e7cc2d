package hookcall

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// NotAClusterError is for a file that holds something else than one Cluster of the newest version.
type NotAClusterError struct{ Source, Kind, APIVersion string }

// Error says what the file holds.
func (e *NotAClusterError) Error() string {
	return fmt.Sprintf("%s holds a %q of %q", e.Source, e.Kind, e.APIVersion)
}

// Hint says what to use instead.
func (e *NotAClusterError) Hint() string {
	return "give a file with one Cluster of " + clusterv1.GroupVersion.String()
}

// ParseCluster reads a Cluster in YAML or JSON. Source is where data is from, for errors, which are of type
// [*NotAClusterError] if it is of another kind or version. A Cluster without a namespace gets the one that is given.
func ParseCluster(data []byte, source, namespace string) (*clusterv1.Cluster, error) {
	cluster := &clusterv1.Cluster{}
	if err := yaml.Unmarshal(data, cluster); err != nil {
		return nil, fmt.Errorf("reading the Cluster in %s: %w", source, err)
	}
	if cluster.APIVersion != clusterv1.GroupVersion.String() || cluster.Kind != "Cluster" {
		return nil, &NotAClusterError{source, cluster.Kind, cluster.APIVersion}
	}
	if cluster.Namespace == "" {
		cluster.Namespace = namespace
	}
	return cluster, nil
}
