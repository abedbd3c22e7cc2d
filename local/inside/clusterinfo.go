package inside

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"
)

// clusterInfo returns the ConfigMap kube-public/cluster-info. Programs written for kubeadm clusters read it to learn
// where the API server is and which authority to trust. As in a kubeadm cluster, the server is the address that
// machines use, because machines can't reach the user's address. The ConfigMap holds no credentials.
func clusterInfo(server string, authority []byte) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[""] = &clientcmdapi.Cluster{
		Server:                   server,
		CertificateAuthorityData: authority,
	} // as kubeadm names it
	text, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encoding the address of the API server: %w", err)
	}
	document, err := yaml.Marshal(&corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"},
		Data:       map[string]string{"kubeconfig": string(text)},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding ConfigMap cluster-info: %w", err)
	}
	return document, nil
}
