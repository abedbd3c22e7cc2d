package controllers

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

const kubeconfigText = `{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],` +
	`"clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u","user":%s}]}`

// TestKubeconfigsOfTenantsRunNothingInThePlane reads tenants' kubeconfigs as the cluster cache does.
func TestKubeconfigsOfTenantsRunNothingInThePlane(t *testing.T) {
	const server = "https://10.231.16.1:6443"
	for name, c := range map[string]struct{ server, user, refused string }{
		"a token": {server: server, user: `{"token":"t"}`},
		"a program": {
			server, `{"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"/bin/sh"}}`, "exec",
		},
		"a file":        {server, `{"tokenFile":"/etc/shadow"}`, "tokenFile"},
		"a certificate": {server, `{"client-certificate":"/etc/shadow"}`, "client-certificate"},
		"without TLS":   {"http://127.0.0.1:2379", `{"token":"t"}`, "https"},
		"no kubeconfig": {server, `"`, "not a kubeconfig"},
		"impersonation": {server, `{"token":"t","as":"admin"}`, "impersonation"},
	} {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-kubeconfig"},
				Data:       map[string][]byte{"value": fmt.Appendf(nil, kubeconfigText, c.server, c.user)},
			}
			reader := kubeconfigs{fake.NewClientBuilder().WithObjects(secret).Build()}
			got := &corev1.Secret{}
			err := reader.Get(t.Context(), client.ObjectKeyFromObject(secret), got)
			switch {
			case c.refused == "" && (err != nil || len(got.Data) == 0):
				t.Errorf("the kubeconfig was refused: %v", err)
			case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused) || len(got.Data) != 0):
				t.Errorf("got error %v, want one with %q", err, c.refused)
			}
		})
	}
}
