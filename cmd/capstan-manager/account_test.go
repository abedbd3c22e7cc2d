//go:build linux

package main

import (
	"bytes"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/release"
	"github.com/capstan-dev/capstan/test/apiserver"
)

// asInstalled gives the managers of a test exactly the rights of an installed one: it installs namespace, service
// account, roles and bindings of the release's components, and writes the kubeconfig with a token of that account.
func (c *cluster) asInstalled(admin *rest.Config) {
	c.Helper()
	const version = "v0.1.0"
	files, err := release.Repository(release.Options{Version: version, Source: apiserver.Root()})
	c.must(err)
	rights := 0
	for document := range bytes.SplitSeq(files[release.Infrastructure+"/"+version+"/"+release.InfrastructureComponents],
		[]byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		c.must(yaml.Unmarshal(document, &o.Object))
		if slices.Contains([]string{"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role",
			"RoleBinding"}, o.GetKind()) {
			c.must(c.api.Create(c.Context(), o))
			rights++
		}
	}
	if rights != 11 {
		c.Fatalf("%d objects of the components concern rights, want 11", rights)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "capstan-system", Name: "capstan-manager"}}
	token := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)},
	}
	c.must(c.api.SubResource("token").Create(c.Context(), account, token))
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "c"
	c.must(clientcmd.WriteToFile(*config, c.kubeconfig))
}
