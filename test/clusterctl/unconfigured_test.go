//go:build linux

package clusterctl

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/test/long"
)

// TestUpgradeWithoutARepository: on a management cluster that is not an embedded plane, the templates in a newer binary
// are not a release to upgrade to. If the configuration has no repository for a provider, capstan refuses to upgrade
// the provider, like clusterctl, and the provider keeps running. The templates in the binary still work.
func TestUpgradeWithoutARepository(t *testing.T) {
	long.Need(t)
	w := newWorld(t)
	w.cluster()
	w.install(current)
	bare := filepath.Join(w.home, "bare.yaml")
	w.without(bare, "infrastructure-capstan")
	c, err := clusterctl.Open(t.Context(), clusterctl.Options{Kubeconfig: w.kubeconfig, Config: bare, Version: newer})
	w.must(err)

	if plans, err := c.PlanUpgrade(t.Context(), upstream.PlanUpgradeOptions{Kubeconfig: c.Kubeconfig}); err == nil ||
		!strings.Contains(err.Error(), "capstan") {
		t.Errorf("want an error about provider capstan, got plan %+v, error %v", plans, err)
	}
	for name, o := range map[string]upstream.ApplyUpgradeOptions{
		"all providers":                         {Contract: "v1beta2"},
		"the named provider":                    {InfrastructureProviders: []string{"capstan:" + newer}},
		"the provider named with its namespace": {InfrastructureProviders: []string{"capstan-system/capstan:" + newer}},
	} {
		if o.Kubeconfig = c.Kubeconfig; c.ApplyUpgrade(t.Context(), o) == nil {
			t.Errorf("%s: an upgrade to a release that is in no repository has succeeded", name)
		}
		d := &appsv1.Deployment{}
		w.must(w.api.Get(t.Context(), client.ObjectKey{Namespace: "capstan-system", Name: "capstan-manager"}, d))
		if d.Spec.Replicas != nil && *d.Spec.Replicas == 0 || w.installed() != current {
			t.Errorf("%s: after a refused upgrade, the manager has no replicas, or another version is installed", name)
		}
	}

	template, err := c.GetClusterTemplate(t.Context(), upstream.GetClusterTemplateOptions{
		Kubeconfig: c.Kubeconfig, ClusterName: "c1", TargetNamespace: "blue", KubernetesVersion: "v1.36.3",
		ProviderRepositorySource: &upstream.ProviderRepositorySourceOptions{
			InfrastructureProvider: c.Template(), Flavor: "topology",
		},
	})
	w.must(err)
	if text, err := template.Yaml(); err != nil || !bytes.Contains(text, []byte("kind: ClusterClass")) {
		t.Errorf("the templates in the binary don't work: %v\n%s", err, text)
	}
}

// without writes a configuration that lacks the providers whose URL contains a word.
func (w *world) without(path, word string) {
	w.Helper()
	text, err := os.ReadFile(w.config)
	w.must(err)
	all := map[string]any{}
	w.must(yaml.Unmarshal(text, &all))
	var kept []any
	for _, p := range all["providers"].([]any) {
		if url, _ := p.(map[string]any)["url"].(string); !strings.Contains(url, word) {
			kept = append(kept, p)
		}
	}
	all["providers"] = kept
	text, err = yaml.Marshal(all)
	w.must(err)
	w.must(os.WriteFile(path, text, 0o600))
}

// TestFeaturesOfCore: if core is already installed, ClusterClasses and the Runtime SDK can be switched on as
// docs/clusterctl.md says.
func TestFeaturesOfCore(t *testing.T) {
	long.Need(t)
	w := newWorld(t)
	w.cluster()
	w.install(current)
	w.env = []string{"CLUSTER_TOPOLOGY=true", "EXP_RUNTIME_SDK=true"}
	w.run("upgrade", "apply", "--core", "cluster-api:"+version(t), "--control-plane", "kubeadm:"+version(t))
	for name, want := range map[client.ObjectKey][]string{
		{Namespace: "capi-system", Name: "capi-controller-manager"}: {
			"ClusterTopology=true", "RuntimeSDK=true",
		},
		{Namespace: "capi-kubeadm-control-plane-system",
			Name: "capi-kubeadm-control-plane-controller-manager"}: {"ClusterTopology=true"},
	} {
		d := &appsv1.Deployment{}
		w.must(w.api.Get(t.Context(), name, d))
		args := strings.Join(d.Spec.Template.Spec.Containers[0].Args, " ")
		for _, gate := range want {
			if !strings.Contains(args, gate) {
				t.Errorf("%s does not have the argument %s: %s", name.Name, gate, args)
			}
		}
	}
}
