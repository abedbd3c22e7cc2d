//go:build linux

package clusterctl

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider"
)

// manager runs our manager as the installed Deployment specifies.
func (w *world) manager() *pod {
	w.Helper()
	return w.managerFrom(binary(w.T, "capstan-manager"))
}

// managerFrom is like manager with the program of another release.
func (w *world) managerFrom(program string) *pod {
	w.Helper()
	return w.runs("capstan-system", "capstan-manager", image{
		files: map[string]string{"/capstan-manager": program},
		ports: map[string]string{"webhook-server": "--webhook-port=%d", "healthz": "--health-addr=127.0.0.1:%d"},
		more:  []string{"--leader-elect-namespace=capstan-system", "--metrics-bind=0"},
	})
}

// TestUpgradeWithACluster upgrades Capstan with the real clusterctl from a release for contract v1beta1, which stores
// objects in v1beta1, to one for v1beta2, while a cluster has a machine on a host. Both managers run as their
// Deployments say. The cluster does not change, everything is stored in v1beta2 afterwards, and the new manager
// continues the work (T-CT-05).
func TestUpgradeWithACluster(t *testing.T) {
	w := newWorld(t)
	w.storesOld()
	w.cluster()
	w.run("init", "--core", "cluster-api:"+version(t), "--bootstrap", "kubeadm:"+version(t), "--control-plane",
		"kubeadm:"+version(t), "--infrastructure", "capstan:"+older)
	w.unhookOthers()
	manager := w.manager()
	s := w.provided()
	claimed, free := s.populate()
	claim := *s.host(claimed).Spec.Claim
	w.stored("v1beta1")
	before := s.meaning(claimed)

	w.stop(manager) // like the kubelet when clusterctl deletes the Deployment
	w.run("upgrade", "apply", "--infrastructure", "capstan-system/capstan:"+current)
	if got := w.installed(); got != current {
		t.Errorf("after the upgrade, the inventory has version %q", got)
	}
	w.labelled("v1beta2")
	w.manager()
	w.until("everything is stored in v1beta2", func() bool { return w.storedIs("v1beta2") })
	for what, is := range s.meaning(claimed) {
		if was := before[what]; !reflect.DeepEqual(is, was) {
			t.Errorf("%s was\n%v\nand is\n%v", what, was, is)
		}
	}
	s.until("the machine is still provisioned", func() bool { s.agent(claimed); return s.provisioned() })
	if got := s.host(claimed).Spec.Claim; got == nil || !reflect.DeepEqual(*got, claim) {
		t.Errorf("the claim is %+v, was %+v", got, claim)
	}
	s.releases(t, claimed, free, claim)
}

// releases deletes the machine: the manager releases its host, and the machine stays until the agent has cleaned the
// host.
func (s side) releases(t *testing.T, claimed, free string, claim infrav1.HostClaim) {
	t.Helper()
	m := &infrav1.CapstanMachine{}
	s.has(m, "m1")
	s.must(s.api.Delete(t.Context(), m))
	s.until("the host is released", func() bool {
		s.agent(claimed)
		c := s.host(claimed).Spec.Claim
		return c != nil && c.Released
	})
	if !s.has(m, "m1") || s.host(free).Spec.Claim != nil {
		t.Errorf("the machine is gone before its host is clean, or has claimed the free host: %+v", s.host(free).Spec)
	}
	s.until("the host is clean and the machine gone", func() bool {
		h := s.host(claimed)
		h.Status.Agent.Cleaning = &infrav1.CleaningReport{
			ProviderID: claim.ProviderID, Done: true, Baseline: claim.Baseline,
		}
		s.must(ignoreConflict(s.api.Status().Update(t.Context(), h)))
		return !s.has(m, "m1") && s.host(claimed).Spec.Claim == nil
	})
}

// storesOld changes the older release in the repository to store v1beta1, like a release that has just begun to serve
// v1beta2.
func (w *world) storesOld() {
	w.Helper()
	path := filepath.Join(w.repository, "infrastructure-capstan", older, "infrastructure-components.yaml")
	text, err := os.ReadFile(path)
	w.must(err)
	documents := bytes.Split(text, []byte("\n---\n"))
	changed := 0
	for i, document := range documents {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if !bytes.Contains(document, []byte("\nkind: CustomResourceDefinition\n")) {
			continue
		}
		w.must(yaml.Unmarshal(document, crd))
		if len(crd.Spec.Versions) < 2 {
			continue
		}
		for j := range crd.Spec.Versions {
			crd.Spec.Versions[j].Storage = crd.Spec.Versions[j].Name == "v1beta1"
		}
		documents[i], err = yaml.Marshal(crd)
		w.must(err)
		changed++
	}
	if changed != 4 {
		w.Fatalf("%d definitions have two versions, want 4", changed)
	}
	w.must(os.WriteFile(path, bytes.Join(documents, []byte("\n---\n")), 0o600))
}

// unhookOthers removes the webhooks of other providers, which no process serves.
func (w *world) unhookOthers() {
	w.Helper()
	others, err := labels.NewRequirement("cluster.x-k8s.io/provider", selection.NotEquals,
		[]string{"infrastructure-capstan"})
	w.must(err)
	all := client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*others)}
	w.must(w.api.DeleteAllOf(w.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{}, all))
	w.must(w.api.DeleteAllOf(w.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{}, all))
}

// provided returns the side of a world in which a provider already runs.
func (w *world) provided() side {
	w.Helper()
	one := *w
	scheme := runtime.NewScheme()
	w.must(provider.AddToScheme(scheme))
	settings, err := clientcmd.BuildConfigFromFlags("", w.kubeconfig)
	w.must(err)
	one.api, err = client.New(settings, client.Options{Scheme: scheme})
	w.must(err)
	return side{&one}
}

// stored fails the test unless our objects are stored in this version only.
func (w *world) stored(want string) {
	w.Helper()
	if !w.storedIs(want) {
		w.Fatalf("objects are not stored in %s only", want)
	}
}

func (w *world) storedIs(want string) bool {
	w.Helper()
	for _, name := range []string{"capstanclusters", "capstanmachines", "capstanclustertemplates",
		"capstanmachinetemplates"} {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		w.must(w.api.Get(w.Context(), client.ObjectKey{Name: name + ".infrastructure.capstan.dev"}, crd))
		if !slices.Equal(crd.Status.StoredVersions, []string{want}) {
			return false
		}
	}
	return true
}

// meaning returns everything about the cluster's objects that must not change, in each served version.
func (s side) meaning(host string) map[string]any {
	s.Helper()
	all := map[string]any{}
	for kind, names := range map[string][]string{
		"CapstanCluster": {"c1"}, "CapstanMachine": {"m1"}, "CapstanMachineTemplate": {"c1-control-plane", "c1-worker"},
		"CapstanHost": {host},
	} {
		for _, version := range []string{"v1beta1", "v1beta2"} {
			for _, name := range names {
				if kind == "CapstanHost" && version == "v1beta1" {
					continue
				}
				o := &unstructured.Unstructured{}
				o.SetAPIVersion("infrastructure.capstan.dev/" + version)
				o.SetKind(kind)
				if !s.has(o, name) {
					s.Fatalf("%s %s isn't there as %s", kind, name, version)
				}
				what := fmt.Sprintf("%s %s %s ", version, kind, name)
				all[what+"uid"], all[what+"spec"], all[what+"owners"], all[what+"finalizers"] =
					o.GetUID(), o.Object["spec"], o.GetOwnerReferences(), o.GetFinalizers()
				if status, ok, _ := unstructured.NestedMap(o.Object, "status"); ok && kind != "CapstanHost" {
					delete(status, "conditions") // the condition about the agent's heartbeat may change
					delete(status, "deprecated")
					delete(status, "v1beta2")
					all[what+"status"] = status
				}
			}
		}
	}
	return all
}
