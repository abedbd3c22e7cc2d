package main

import (
	"os"
	"path/filepath"
	"testing"

	kubeadmscheme "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/scheme"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/config"
)

// TestPodSubnet loads configurations as kubeadm's commands do.
func TestPodSubnet(t *testing.T) {
	withPodSubnet(kubeadmscheme.Scheme)
	version, err := os.ReadFile("../../DEFAULT_VERSION")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ networking, want string }{
		"no pod range":             {"{}", "10.244.0.0/16"},
		"one pod range":            {"{podSubnet: 10.9.0.0/16}", "10.9.0.0/16"},
		"Services of two families": {`{serviceSubnet: "fd00:96::/112,10.96.0.0/16"}`, "fd00:10:244::/56,10.244.0.0/16"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "kubeadm.yaml")
			text := "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: " +
				string(version) + "networking: " + c.networking + "\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			loaded, err := config.LoadInitConfigurationFromFile(file, config.LoadOrDefaultConfigurationOptions{
				SkipCRIDetect: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := loaded.Networking.PodSubnet; got != c.want {
				t.Errorf("the pods have %q, want %q", got, c.want)
			}
			if loaded.ClusterName != "kubernetes" || loaded.Etcd.Local == nil {
				t.Errorf("upstream's defaults are missing: %+v", loaded.ClusterConfiguration)
			}
		})
	}
}
