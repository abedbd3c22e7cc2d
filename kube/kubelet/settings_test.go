package kubelet

import (
	"os"
	"path/filepath"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"

	"github.com/capstan-dev/capstan/kube/mode"
)

// kubeadmConfig is what kubeadm writes, with user settings that a local host can't support.
const kubeadmConfig = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
authorization: {mode: Webhook}
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
resolvConf: /no/such/file
rotateCertificates: true
staticPodPath: /etc/kubernetes/manifests
maxPods: 42
protectKernelDefaults: true
kubeReserved: {cpu: 100m}
enforceNodeAllocatable: [pods, kube-reserved]
kubeReservedCgroup: /kube
evictionHard: {nodefs.available: 90%}
evictionSoft: {memory.available: 90%}
evictionSoftGracePeriod: {memory.available: 1m}
shutdownGracePeriod: 30s
shutdownGracePeriodCriticalPods: 10s
`

func TestFitAcceptsAnOrdinaryConfiguration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(kubeadmConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := load(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := overlay(config, []string{"--node-ip=10.0.0.1", "--max-pods=43", "--v=2"}); err != nil {
		t.Fatal(err)
	}
	flags := options.NewKubeletFlags()
	flags.NodeLabels = map[string]string{"mine": "yes"}
	fit(flags, config, mode.Mode{Hollow: true})

	if err := validation.ValidateKubeletConfiguration(config, utilfeature.DefaultFeatureGate); err != nil {
		t.Errorf("the configuration is not valid: %v", err)
	}
	if flags.NodeLabels[mode.HollowLabel] != "true" || flags.NodeLabels["mine"] != "yes" {
		t.Errorf("labels %v, want ours and the user's", flags.NodeLabels)
	}
	if config.MaxPods != 43 {
		t.Errorf("maxPods is %d, want the flag to win over the file", config.MaxPods)
	}
	if config.ClusterDomain != "cluster.local" || config.KubeReserved["cpu"] != "100m" {
		t.Errorf("settings that the host supports were changed: %v, %v", config.ClusterDomain, config.KubeReserved)
	}
	if config.CgroupsPerQOS || config.EnforceNodeAllocatable != nil || config.EvictionHard["nodefs.available"] != "0%" ||
		config.ResolverConfig != "" {
		t.Errorf("settings that the host can't support are left: %v", config)
	}
}

func TestRealPodsGiveUpImagesOfAFullDisk(t *testing.T) {
	for name, c := range map[string]struct {
		of        mode.Mode
		high, low int32
	}{
		"hollow pods": {mode.Mode{Hollow: true}, 100, 99},
		"real pods":   {mode.Mode{}, imagesHigh, imagesLow},
	} {
		config, err := options.NewKubeletConfiguration()
		if err != nil {
			t.Fatal(err)
		}
		fit(options.NewKubeletFlags(), config, c.of)
		if config.ImageGCHighThresholdPercent != c.high || config.ImageGCLowThresholdPercent != c.low {
			t.Errorf("%s: from %d%% to %d%%, want %d%% to %d%%", name, config.ImageGCHighThresholdPercent,
				config.ImageGCLowThresholdPercent, c.high, c.low)
		}
	}
}

func TestLoadSaysWhatToDo(t *testing.T) {
	_, err := load(t.Context(), filepath.Join(t.TempDir(), "config.yaml"))
	if err == nil {
		t.Fatal("a missing file was read")
	}
}
