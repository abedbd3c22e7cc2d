package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/extension"
	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/test/apiserver"
)

// TestReplicasShareACertificate runs two replicas as in the Deployment, with only the rights in config/extension. They
// share one certificate, and its authority is where the ExtensionConfig looks for it, so calls to either succeed.
func TestReplicasShareACertificate(t *testing.T) {
	server, err := apiserver.Start(apiserver.Options{})
	defer func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := ctrlclient.New(server.Config, ctrlclient.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	secret := types.NamespacedName{Namespace: "capstan-system", Name: "capstan-extension-certificate"}
	if err := admin.Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: secret.Namespace},
	}); err != nil {
		t.Fatal(err)
	}
	grant(t, admin, "replica")
	user, err := server.User("replica")
	if err != nil {
		t.Fatal(err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: user.Host, CertificateAuthorityData: user.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: user.CertData, ClientKeyData: user.KeyData}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	var replicas sync.WaitGroup
	defer func() { cancel(); replicas.Wait() }()
	logs := [2]*lines{{}, {}}
	for _, log := range logs {
		replicas.Go(func() {
			if code := run(ctx, []string{
				"--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0", "--cert-secret", secret.String(), "--cert-hosts",
				"127.0.0.1",
			}, io.Discard, log); code != 0 {
				t.Errorf("the exit code is %d", code)
			}
		})
	}
	for i, log := range logs {
		address := log.find(t, "address")
		stored := &corev1.Secret{}
		if err := admin.Get(t.Context(), secret, stored); err != nil {
			t.Fatal(err)
		}
		calls, err := client.New(client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer calls.Close()
		if err := calls.WarmUp(&runtimev1.ExtensionConfigList{}); err != nil {
			t.Fatal(err)
		}
		if _, err := calls.Discover(t.Context(), extension.Config("https://"+address, stored.Data["ca.crt"])); err != nil {
			t.Errorf("calling replica %d: %v", i, err)
		}
	}
}

// grant gives a user the rights that the manifests give to the ServiceAccount.
func grant(t *testing.T, admin ctrlclient.Client, user string) {
	t.Helper()
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	for _, file := range []string{"rbac.yaml", "certificate_role.yaml"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "config", "extension", file))
		if err != nil {
			t.Fatal(err)
		}
		for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
			var kind metav1.TypeMeta
			if err := yaml.Unmarshal(document, &kind); err != nil {
				t.Fatal(err)
			}
			object, err := scheme.Scheme.New(kind.GroupVersionKind())
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.UnmarshalStrict(document, object); err != nil {
				t.Fatal(err)
			}
			switch o := object.(type) {
			case *rbacv1.ClusterRoleBinding:
				o.Subjects = subjects
			case *rbacv1.RoleBinding:
				o.Subjects = subjects
			}
			if err := admin.Create(t.Context(), object.(ctrlclient.Object)); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
	}
}
