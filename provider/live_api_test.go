//go:build linux

package provider

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// bundle returns the capstan-kube binary, whose applets include etcd and kube-apiserver.
func bundle(t *testing.T) string {
	t.Helper()
	kube := os.Getenv("CAPSTAN_KUBE")
	if kube == "" {
		version, err := os.ReadFile("../kube/DEFAULT_VERSION")
		if err != nil {
			t.Fatal(err)
		}
		kube = filepath.Join("..", "bin", "bundles", strings.TrimSpace(string(version)), "capstan-kube")
	}
	kube, err := filepath.Abs(kube)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(kube); err != nil {
		t.Fatalf("this test needs a real API server: %v; run make kube first, or set CAPSTAN_KUBE", err)
	}
	return kube
}

// startAPI starts etcd and kube-apiserver with our types and the Cluster API types that we read.
func startAPI(t *testing.T) *envtest.Environment {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	kube, assets := bundle(t), t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		if err := os.Symlink(kube, filepath.Join(assets, name)); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatalf("finding cluster-api's module: %v", err)
	}
	module := strings.TrimSpace(string(out))
	core := filepath.Join(module, "core", "config", "crd", "bases")
	kubeadm := filepath.Join(module, "bootstrap", "kubeadm", "config", "crd", "bases")
	env := &envtest.Environment{
		BinaryAssetsDirectory: assets,
		CRDDirectoryPaths: []string{
			"../config/crd/bases", filepath.Join(core, "cluster.x-k8s.io_clusters.yaml"),
			filepath.Join(core, "cluster.x-k8s.io_machines.yaml"),
			filepath.Join(kubeadm, "bootstrap.cluster.x-k8s.io_kubeadmconfigs.yaml"),
		},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: limit,
	}
	// Choose the directories here: if the servers chose them, a failed start would leave them behind.
	env.ControlPlane.Etcd = &envtest.Etcd{DataDir: t.TempDir()}
	env.ControlPlane.GetAPIServer().CertDir = t.TempDir()
	// kubeadm and Capstan's plane set this too: an admission policy checks the audience of a host's token.
	env.ControlPlane.GetAPIServer().Configure().
		Set("service-account-issuer", "https://kubernetes.default.svc.cluster.local")
	t.Cleanup(func() { // registered before the start, because a start that fails halfway leaves something running
		if err := env.Stop(); err != nil {
			t.Errorf("stopping the API server: %v", err)
		}
	})
	if _, err := env.Start(); err != nil {
		t.Fatalf("starting the API server: %v", err)
	}
	return env
}
