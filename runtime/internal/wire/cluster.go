package wire

import (
	"bytes"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

var olderCluster = []byte(`"` + clusterv1beta1.GroupVersion.Group + "/" + clusterv1beta1.GroupVersion.Version + `"`)

// UpgradeCluster returns the body of a request with its embedded Cluster converted to v1beta2. Up to v1.12, Cluster
// API sent v1beta1 under the same version of the hook, so servers must accept both. A body without such a Cluster is
// returned unchanged.
func UpgradeCluster(body []byte) ([]byte, error) {
	if !bytes.Contains(body, olderCluster) {
		return body, nil // the usual case costs one scan
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return body, nil //nolint:nilerr // Decode reports what is wrong with it.
	}
	var kind metav1.TypeMeta
	if err := json.Unmarshal(fields["cluster"], &kind); err != nil ||
		kind.APIVersion != clusterv1beta1.GroupVersion.String() {
		return body, nil //nolint:nilerr // No Cluster, or one that Decode rejects.
	}
	older, cluster := &clusterv1beta1.Cluster{}, &clusterv1.Cluster{}
	if err := json.Unmarshal(fields["cluster"], older); err != nil {
		return nil, fmt.Errorf("decoding the request's Cluster of %s: %w", kind.APIVersion, err)
	}
	if err := clusterv1beta1.Convert_v1beta1_Cluster_To_v1beta2_Cluster(older, cluster, nil); err != nil {
		return nil, fmt.Errorf("converting the request's Cluster from %s: %w", kind.APIVersion, err)
	}
	data, err := Encode(cluster, clusterv1.GroupVersion.String(), "Cluster")
	if err != nil {
		return nil, err
	}
	fields["cluster"] = data
	return json.Marshal(fields)
}
