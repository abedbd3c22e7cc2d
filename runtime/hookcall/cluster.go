package hookcall

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// NotAClusterError reports a file that contains something other than one Cluster of the newest version.
type NotAClusterError struct{ Source, Kind, APIVersion string }

// Error says what the file contains.
func (e *NotAClusterError) Error() string {
	return fmt.Sprintf("%s holds a %q of %q", e.Source, e.Kind, e.APIVersion)
}

// Hint says what to use instead.
func (e *NotAClusterError) Hint() string {
	return "give a file with one Cluster of " + clusterv1.GroupVersion.String()
}

// ParseCluster reads a Cluster in YAML or JSON. source is where data comes from, for errors. If data has another kind
// or version, the error is a [*NotAClusterError]. A Cluster without a namespace gets the given one.
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
