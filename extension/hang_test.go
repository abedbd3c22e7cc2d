package extension

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/extension/addon"
	"github.com/capstan-dev/capstan/extension/part/parttest"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/sample"
)

// kubeconfigOf returns a kubeconfig for a server.
func kubeconfigOf(t *testing.T, server *httptest.Server) []byte {
	t.Helper()
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server:                   server.URL,
			CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {Token: "t"}},
		Contexts:  map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "c",
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A workload cluster whose API server accepts requests and never answers holds only its own Cluster. Each hook gets an
// answer, with the reason, before the caller's timeout. A late answer would count against the extension, and callers
// would stop calling it for all clusters.
func TestAWorkloadClusterThatHangs(t *testing.T) {
	end := make(chan struct{})
	hangs := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
	t.Cleanup(hangs.Close)
	t.Cleanup(func() { close(end) })
	w := parttest.NewWorld(2)
	cluster := sample.Cluster()
	w.Kubeconfigs = map[string][]byte{cluster.Namespace + "/" + cluster.Name + "-kubeconfig": kubeconfigOf(t, hangs)}
	w.AddOns = []corev1.ConfigMap{{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.Namespace, Name: "shop", Labels: map[string]string{addon.Label: "shop"},
		},
		Data: map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"},
	}}
	e, err := New(Options{Reader: w, Bundle: "/bin/true", Backups: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	after := &runtimehooksv1.AfterControlPlaneUpgradeRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: runtimehooksv1.GroupVersion.String(), Kind: "AfterControlPlaneUpgradeRequest"},
		Cluster:  *cluster, KubernetesVersion: sample.To,
	}
	before := &runtimehooksv1.BeforeClusterUpgradeRequest{
		TypeMeta: metav1.TypeMeta{
			APIVersion: runtimehooksv1.GroupVersion.String(), Kind: "BeforeClusterUpgradeRequest",
		},
		Cluster:               *cluster,
		FromKubernetesVersion: sample.From, ToKubernetesVersion: sample.To,
	}
	for name, c := range map[string]struct {
		path    string
		request any
		want    string
	}{
		"add-ons": {hook.AfterControlPlaneUpgrade.ID().Path("add-ons-control-plane"), after,
			"add-ons: reading the inventory of add-ons"},
		"verification": {hook.AfterControlPlaneUpgrade.ID().Path("verification-control-plane"), after,
			"verification: asking the API server whether it is ready"},
		"add-ons that are compared": {hook.BeforeClusterUpgrade.ID().Path("add-ons-before-upgrade"), before,
			"add-ons could not be compared: reading the inventory of add-ons"},
	} {
		t.Run(name, func(t *testing.T) {
			body, err := json.Marshal(c.request)
			if err != nil {
				t.Fatal(err)
			}
			answer := httptest.NewRecorder()
			e.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, c.path+"?timeout=3s",
				bytes.NewReader(body)))
			if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), `"status":"Success"`) ||
				!strings.Contains(answer.Body.String(), c.want) {
				t.Errorf("the answer is %d %s, want %q", answer.Code, answer.Body, c.want)
			}
		})
	}
}
