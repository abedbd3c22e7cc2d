//go:build linux

package provider

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

var kubeadmConfig = schema.GroupVersionKind{
	Group: "bootstrap.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmConfig",
}

// newConfig returns a bootstrap configuration that a Machine controls.
func (l *live) newConfig(name string, of *clusterv1.Machine) *unstructured.Unstructured {
	l.Helper()
	config := &unstructured.Unstructured{}
	config.SetGroupVersionKind(kubeadmConfig)
	config.SetNamespace(ns)
	config.SetName(name)
	config.SetOwnerReferences([]metav1.OwnerReference{
		*metav1.NewControllerRef(of, clusterv1.GroupVersion.WithKind("Machine")),
	})
	l.must(l.admin.Create(l.Context(), config))
	return config
}

// newSecret returns a Secret as the bootstrap provider creates it for a configuration.
func (l *live) newSecret(name, value string, of *unstructured.Unstructured) *corev1.Secret {
	l.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"value": []byte(value)},
	}
	if of != nil {
		secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(of, kubeadmConfig)}
	}
	l.must(l.admin.Create(l.Context(), secret))
	return secret
}

// newMachine returns a Machine that names a Secret and, unless config is empty, has a configRef.
func (l *live) newMachine(name, secret, config string) *clusterv1.Machine {
	l.Helper()
	objects := member(name, false, func(m *clusterv1.Machine, _ *infrav1.CapstanMachine) {
		m.Spec.Bootstrap.DataSecretName = ptr.To(secret)
		if config != "" {
			m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{
				APIGroup: kubeadmConfig.Group, Kind: kubeadmConfig.Kind, Name: config,
			}
		}
	})
	l.create(objects[:2]...)
	return objects[0].(*clusterv1.Machine)
}

// TestLiveDataOfOthers creates Machines that name Secrets of others, each in a different way. No host may be claimed
// for them, and nothing may be copied. A Machine with data of its own gets a host in the meantime.
func TestLiveDataOfOthers(t *testing.T) {
	l := startLive(t, 6)
	l.cluster()
	rightful := l.newMachine("rightful", "rightful-data", "rightful-config")
	l.newSecret("rightful-data", "data of rightful", l.newConfig("rightful-config", rightful))
	l.newSecret("demo-kubeconfig", "the admin's credentials", nil)
	l.newSecret("password", "somebody's password", nil)

	attacks := map[string]string{ // parts of the condition's message, by name of the machine
		"kubeconfig": "-kubeconfig", "kubeconfig-with-config": "-kubeconfig", "unlabelled": infrav1.BootstrapDataLabel,
		"without-owner": "its controller is not KubeadmConfig", "of-a-neighbour": "but does not control it",
		"own-config": "its controller is not KubeadmConfig",
	}
	l.newMachine("kubeconfig", "demo-kubeconfig", "")
	m := l.newMachine("kubeconfig-with-config", "demo-kubeconfig", "kubeconfig-config")
	l.newConfig("kubeconfig-config", m)
	l.newMachine("unlabelled", "password", "")
	m = l.newMachine("without-owner", "password", "password-config")
	l.newConfig("password-config", m)
	l.newMachine("of-a-neighbour", "rightful-data", "rightful-config")
	m = l.newMachine("own-config", "rightful-data", "own-config")
	l.newConfig("own-config", m)

	l.ready("rightful")
	for name, says := range attacks {
		capstan := &infrav1.CapstanMachine{}
		l.until("machine "+name+" says why it gets no data", func() bool {
			l.get(name, capstan)
			ready := conditions.Get(capstan, infrav1.ReadyCondition)
			return ready != nil && ready.Reason == infrav1.BootstrapDataRefusedReason && strings.Contains(ready.Message, says)
		})
	}
	hosts, secrets := &infrav1.CapstanHostList{}, &corev1.SecretList{}
	l.must(l.admin.List(t.Context(), hosts))
	for _, host := range hosts.Items {
		if c := host.Spec.Claim; c != nil && c.Machine != "rightful" {
			t.Errorf("host %s is claimed for machine %s, whose data is refused", host.Name, c.Machine)
		}
	}
	l.must(l.admin.List(t.Context(), secrets, client.InNamespace(ns)))
	for _, s := range secrets.Items {
		if strings.HasSuffix(s.Name, infrav1.BootstrapSecretSuffix) && string(s.Data["value"]) != "data of rightful" {
			t.Errorf("Secret %s has a copy of %q", s.Name, s.Data["value"])
		}
	}
}
