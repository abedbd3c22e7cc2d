package inside

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

func TestClusterInfo(t *testing.T) {
	document, err := clusterInfo("https://127.0.0.1:40123", []byte("PEM"))
	if err != nil {
		t.Fatal(err)
	}
	var info corev1.ConfigMap
	if err := yaml.UnmarshalStrict(document, &info); err != nil {
		t.Fatal(err)
	}
	if info.Namespace != "kube-public" || info.Name != "cluster-info" || info.Kind != "ConfigMap" {
		t.Errorf("the object is the %s %s/%s", info.Kind, info.Namespace, info.Name)
	}
	config, err := clientcmd.Load([]byte(info.Data["kubeconfig"]))
	if err != nil {
		t.Fatal(err)
	}
	cluster := config.Clusters[""]
	if cluster == nil || cluster.Server != "https://127.0.0.1:40123" ||
		string(cluster.CertificateAuthorityData) != "PEM" {
		t.Errorf("the cluster in the kubeconfig is %+v", cluster)
	}
	if len(config.AuthInfos) > 0 {
		t.Errorf("the kubeconfig has the credentials of %d users, want none", len(config.AuthInfos))
	}
}
