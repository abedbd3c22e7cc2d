package certificate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// apiServer starts a real API server, which runs until the test ends.
func apiServer(t *testing.T) ctrlclient.Client {
	t.Helper()
	kube := os.Getenv("CAPSTAN_KUBE")
	if version, err := os.ReadFile("../../kube/DEFAULT_VERSION"); kube == "" && err == nil {
		kube = filepath.Join("..", "..", "bin", "bundles", strings.TrimSpace(string(version)), "capstan-kube")
	}
	kube, err := filepath.Abs(kube)
	if err == nil {
		_, err = os.Stat(kube)
	}
	if err != nil {
		t.Skipf("no Kubernetes bundle: run make kube first, or set CAPSTAN_KUBE: %v", err)
	}
	ctrl.SetLogger(logr.Discard())
	env := &envtest.Environment{
		BinaryAssetsDirectory: t.TempDir(), ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	// Choose the directories here: nobody removes those that the servers choose themselves if a start fails.
	env.ControlPlane.Etcd = &envtest.Etcd{DataDir: t.TempDir()}
	env.ControlPlane.GetAPIServer().CertDir = t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		if err := os.Symlink(kube, filepath.Join(env.BinaryAssetsDirectory, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Errorf("stopping the API server: %v", err)
		}
	})
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	c, err := ctrlclient.New(config, ctrlclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Two replicas share one Secret of a real API server, where an ExtensionConfig finds the authorities (RC-09).
func TestInSecret(t *testing.T) {
	c := apiServer(t)
	name := types.NamespacedName{Namespace: "default", Name: "extension-cert"}
	now := time.Now()
	first := newKeeper(t, InSecret(c, name), testOptions(&now))
	second := newKeeper(t, InSecret(c, name), testOptions(&now))
	same := func() {
		t.Helper()
		a, _ := first.GetCertificate(nil)
		b, _ := second.GetCertificate(nil)
		if !a.Leaf.Equal(b.Leaf) {
			t.Error("the replicas have two certificates")
		}
		secret := &corev1.Secret{}
		if err := c.Get(t.Context(), name, secret); err != nil {
			t.Fatal(err)
		}
		if err := trusts(t, secret.Data["ca.crt"], second, "127.0.0.1", now); err != nil ||
			secret.Type != corev1.SecretTypeTLS {
			t.Errorf("a Secret of type %s, %v", secret.Type, err)
		}
	}
	same()

	// What others add to the Secret survives a renewal.
	secret := &corev1.Secret{}
	if err := c.Get(t.Context(), name, secret); err != nil {
		t.Fatal(err)
	}
	secret.Labels = map[string]string{"example.org/owner": "me"}
	secret.Data["other"] = []byte("kept")
	if err := c.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	before, _ := first.GetCertificate(nil)
	now = now.Add(25 * day)
	if err := errors.Join(first.Renew(t.Context()), second.Renew(t.Context())); err != nil {
		t.Fatal(err)
	}
	if after, _ := first.GetCertificate(nil); after.Leaf.Equal(before.Leaf) {
		t.Error("the certificate was not renewed")
	}
	same()
	if err := c.Get(t.Context(), name, secret); err != nil || secret.Labels["example.org/owner"] != "me" ||
		string(secret.Data["other"]) != "kept" {
		t.Errorf("the Secret is %+v, %v", secret, err)
	}

	// A write fails if somebody else has written since the read.
	store := InSecret(c, name)
	bundle, version, err := store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Save(t.Context(), bundle, version+"0"); !errors.Is(err, ErrConflict) {
		t.Errorf("saving over another version: %v", err)
	}
	if err := store.Save(t.Context(), bundle, ""); !errors.Is(err, ErrConflict) {
		t.Errorf("saving as if there were no bundle: %v", err)
	}
	// A deleted Secret is created again.
	if err := c.Delete(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
	}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.Renew(t.Context()), second.Renew(t.Context())); err != nil {
		t.Fatal(err)
	}
	same()
	if key, value := Annotation(name); key != "runtime.cluster.x-k8s.io/inject-ca-from-secret" ||
		value != "default/extension-cert" {
		t.Errorf("the annotation is %s: %s", key, value)
	}
}
