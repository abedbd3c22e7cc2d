package templates

import (
	"bytes"
	"testing"

	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	"sigs.k8s.io/yaml"
)

// TestOwnedControlPlanesMayBeSlow: unless configured otherwise, "kubeadm init" gives up after a minute without an
// answer of the API server, before it reaches the step that waits for that answer for four minutes.
func TestOwnedControlPlanesMayBeSlow(t *testing.T) {
	found := 0
	for _, document := range bytes.Split(Owned, []byte("\n---\n")) {
		if !bytes.Contains(document, []byte("\nkind: KubeadmControlPlaneTemplate\n")) {
			continue
		}
		var template controlplanev1.KubeadmControlPlaneTemplate
		if err := yaml.UnmarshalStrict(document, &template); err != nil {
			t.Fatal(err)
		}
		config := template.Spec.Template.Spec.KubeadmConfigSpec
		for what, seconds := range map[string]*int32{
			"init": config.InitConfiguration.Timeouts.KubernetesAPICallSeconds,
			"join": config.JoinConfiguration.Timeouts.KubernetesAPICallSeconds,
		} {
			found++
			if seconds == nil || *seconds < 240 {
				t.Errorf("kubeadm %s waits %v seconds for an answer, want as many as for a healthy API server", what, seconds)
			}
		}
	}
	if found != 2 {
		t.Errorf("%d configurations, want 2", found)
	}
}
