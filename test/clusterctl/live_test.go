//go:build linux

package clusterctl

import (
	"bytes"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var dryRun = client.DryRunAll

func mapKeys(m map[string]any) iter.Seq[string] { return maps.Keys(m) }

// install initializes the management cluster with Cluster API and a release of ours, and removes the webhooks, which
// no process serves.
func (w *world) install(ours string) {
	w.Helper()
	w.run("init", "--core", "cluster-api:"+version(w.T), "--bootstrap", "kubeadm:"+version(w.T), "--control-plane",
		"kubeadm:"+version(w.T), "--infrastructure", "capstan:"+ours)
	w.unhook()
}

func (w *world) unhook() {
	w.Helper()
	w.must(w.api.DeleteAllOf(w.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{}))
	w.must(w.api.DeleteAllOf(w.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{}))
}

// installed returns the version of our provider in the inventory, or "" if it isn't there.
func (w *world) installed() string {
	w.Helper()
	p := &clusterctlv1.Provider{}
	err := w.api.Get(w.Context(), client.ObjectKey{Namespace: "capstan-system", Name: "infrastructure-capstan"}, p)
	w.must(client.IgnoreNotFound(err))
	return p.Version
}

// TestManagementCluster takes a management cluster through its life: it is initialized with a release for contract
// v1beta1, upgraded, used, and emptied (T-CT-05 to T-CT-07).
func TestManagementCluster(t *testing.T) {
	w := newWorld(t)
	w.cluster()
	for _, step := range []struct {
		name string
		test func(*world, *testing.T)
	}{
		{"init", (*world).testInit}, {"upgrade", (*world).testUpgrade}, {"flavors", (*world).testFlavors},
		{"describe", (*world).testDescribe}, {"delete", (*world).testDelete},
	} {
		ok := t.Run(step.name, func(t *testing.T) {
			one := *w
			one.T = t
			step.test(&one, t)
		})
		if !ok {
			t.FailNow()
		}
	}
}

// testInit initializes the management cluster.
func (w *world) testInit(t *testing.T) {
	w.install(older)
	if got := w.installed(); got != older {
		t.Errorf("after init, the inventory has version %q", got)
	}
	d := &appsv1.Deployment{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Namespace: "capstan-system", Name: "capstan-manager"}, d))
	if c := d.Spec.Template.Spec.Containers[0]; c.Name != "manager" ||
		!strings.HasSuffix(c.Image, "capstan-manager:"+older) || strings.Contains(strings.Join(c.Args, " "), "--namespace") {
		t.Errorf("want container manager with the older image, without --namespace, got %s, %s, %v", c.Name, c.Image,
			c.Args)
	}
	t.Attr("rule", "CT-49")
	t.Attr("rule", "CT-51")
	aggregated(w)
	w.run("init", "--infrastructure", "capstan:"+older)
	providers := &clusterctlv1.ProviderList{}
	if w.must(w.api.List(t.Context(), providers)); len(providers.Items) != 4 {
		t.Errorf("after a second init the inventory has %d providers, want 4", len(providers.Items))
	}
	w.refused("already an instance", "init", "--infrastructure", "capstan:"+older, "--target-namespace", "second") // IC-38
	t.Attr("rule", "IC-38 v1beta1")
	t.Attr("rule", "IC-38 v1beta2")
}

// testDelete removes our provider, first without its definitions and then with them.
func (w *world) testDelete(t *testing.T) {
	w.run("delete", "--infrastructure", "capstan")
	if got := w.installed(); got != "" {
		t.Errorf("the inventory still has version %q", got)
	}
	if !w.defined() {
		t.Error("a delete without --include-crd has removed the definitions")
	}
	w.run("init", "--infrastructure", "capstan:"+current)
	w.unhook()
	w.refused("found existing objects", "delete", "--infrastructure", "capstan", "--include-crd", "--include-namespace")
	if w.installed() != current || !w.defined() {
		t.Error("a refused delete removed our provider from the inventory, or its definitions")
	}
	for _, kind := range []string{"CapstanCluster", "CapstanClusterTemplate", "CapstanMachineTemplate"} {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("infrastructure.capstan.dev/v1beta2")
		o.SetKind(kind)
		w.must(w.api.DeleteAllOf(t.Context(), o, client.InNamespace("blue")))
	}
	w.run("delete", "--infrastructure", "capstan", "--include-crd", "--include-namespace")
	if w.defined() {
		t.Error("the definitions are still there")
	}
}

func (w *world) defined() bool {
	w.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := w.api.Get(w.Context(), client.ObjectKey{Name: "capstanmachines.infrastructure.capstan.dev"}, crd)
	w.must(client.IgnoreNotFound(err))
	return err == nil && crd.DeletionTimestamp == nil
}

// aggregated waits until Cluster API's core has the right to create our machines.
func aggregated(w *world) {
	w.Helper()
	role := &rbacv1.ClusterRole{}
	w.until("Cluster API's core has aggregated rights on our objects", func() bool {
		w.must(w.api.Get(w.Context(), client.ObjectKey{Name: "capi-aggregated-manager-role"}, role))
		for _, r := range role.Rules {
			if len(r.APIGroups) == 1 && r.APIGroups[0] == "infrastructure.capstan.dev" {
				return true
			}
		}
		return false
	})
}

// TestBadReleases: each bad release is refused with a message, and nothing of it is in the inventory. A good release is
// installed, into another namespace (T-CT-08).
func TestBadReleases(t *testing.T) {
	w := newWorld(t)
	w.cluster()
	w.run("init", "--core", "cluster-api:"+version(t), "--bootstrap", "-", "--control-plane", "-")
	w.unhook()
	path := filepath.Join(w.repository, "infrastructure-capstan", current, "metadata.yaml")
	good, err := os.ReadFile(path)
	w.must(err)
	for name, c := range map[string]struct {
		metadata []byte
		want     string
	}{
		"broken metadata": {[]byte("releaseSeries: 1"), "metadata.yaml"},
		"no series": {[]byte("apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\n"),
			"releaseSeries is empty"},
		"the series of the tag is missing":  {bytes.ReplaceAll(good, []byte("minor: 1"), []byte("minor: 9")), "series"},
		"a contract that core doesn't know": {bytes.ReplaceAll(good, []byte("v1beta2"), []byte("v1alpha3")), "contract"},
		"no metadata":                       {nil, "metadata.yaml"},
	} {
		w.must(os.Remove(path))
		if c.metadata != nil {
			w.must(os.WriteFile(path, c.metadata, 0o600))
		}
		t.Run(name, func(t *testing.T) {
			one := *w
			one.T = t
			one.refused(c.want, "init", "--infrastructure", "capstan:"+current)
			if got := one.installed(); got != "" {
				t.Errorf("the inventory has version %s of a bad release", got)
			}
			if c.metadata == nil {
				t.Attr("rule", "CT-35")
			}
		})
		w.must(os.WriteFile(path, good, 0o600))
	}
	w.refused("v1.x", "init", "--infrastructure", "capstan:v1.x")
	w.elsewhere(t)
}

// testUpgrade upgrades from a release for contract v1beta1 to one for v1beta2, and from there to the next release.
func (w *world) testUpgrade(t *testing.T) {
	w.labelled("v1beta1")
	w.configure(newer)
	if out := w.run("upgrade", "plan"); !strings.Contains(out, newer) || !strings.Contains(out, older) {
		t.Errorf("the plan lacks the older or the newer version:\n%s", out)
	}
	w.run("upgrade", "apply", "--infrastructure", "capstan-system/capstan:"+current)
	if got := w.installed(); got != current {
		t.Errorf("after the upgrade, the inventory has version %q", got)
	}
	w.labelled("v1beta2")
	w.fromGitLab(t)
	w.labelled("v1beta2")
	w.refused("v0.1.9", "upgrade", "apply", "--infrastructure", "capstan-system/capstan:v0.1.9")
	if got := w.installed(); got != newer {
		t.Errorf("an upgrade that failed changed the version in the inventory to %q", got)
	}
	w.unhook()
}

// fromGitLab upgrades to the next release from a GitLab package. Versions there can't be listed, so no upgrade plan
// contains the release, but an upgrade that names it works.
func (w *world) fromGitLab(t *testing.T) {
	t.Helper()
	before := w.config
	h := w.host()
	w.config = h.write(w, t.TempDir(), gitLab)
	plan := w.run("upgrade", "plan")
	if strings.Contains(plan, newer) || !strings.Contains(plan, current) {
		t.Errorf("want a plan with the current version, and not with the newer one, got\n%s", plan)
	}
	if stdout, stderr, err := w.try("upgrade", "apply", "--contract", "v1beta2"); w.installed() != current {
		t.Errorf("without a version, clusterctl upgraded to %s: %v\n%s%s", w.installed(), err, stdout, stderr)
	}
	w.run("upgrade", "apply", "--infrastructure", "capstan-system/capstan:"+newer)
	if got := w.installed(); got != newer {
		t.Errorf("after the upgrade from GitLab, the inventory has version %q", got)
	}
	t.Attr("rule", "CT-23")
	w.config, w.env = before, nil
}

// labelled fails the test if the newest contract in the labels of the definitions is not the given one.
func (w *world) labelled(want string) {
	w.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	w.must(w.api.Get(w.Context(), client.ObjectKey{Name: "capstanmachines.infrastructure.capstan.dev"}, crd))
	newest := ""
	for label := range crd.Labels {
		if v, ok := strings.CutPrefix(label, "cluster.x-k8s.io/v"); ok {
			newest = max(newest, "v"+v)
		}
	}
	if newest != want {
		w.Errorf("definitions are for contract %q, want %q", newest, want)
	}
}

// testDescribe describes a cluster and gets its kubeconfig.
func (w *world) testDescribe(t *testing.T) {
	for _, o := range documents(t, w.generate("external")) {
		w.must(w.api.Create(t.Context(), o))
	}
	if out := w.run("describe", "cluster", "c1", "--namespace", "blue"); !strings.Contains(out, "CapstanCluster blue/c1") {
		t.Errorf("the description lacks the CapstanCluster:\n%s", out)
	}
	w.refused("not found", "get", "kubeconfig", "c1", "--namespace", "blue")
	w.must(w.api.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue", Name: "c1-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"},
		},
		Type: clusterv1.ClusterSecretType, Data: map[string][]byte{"value": []byte("a kubeconfig")},
	}))
	if out := w.run("get", "kubeconfig", "c1", "--namespace", "blue"); !strings.Contains(out, "a kubeconfig") {
		t.Errorf("want the kubeconfig from the Secret, got %q", out)
	}
}

// elsewhere installs into another namespace.
func (w *world) elsewhere(t *testing.T) {
	t.Helper()
	w.run("init", "--infrastructure", "capstan:"+current, "--target-namespace", "elsewhere")
	w.must(w.api.Get(t.Context(), client.ObjectKey{Namespace: "elsewhere", Name: "capstan-manager"}, &appsv1.Deployment{}))
	crd := &apiextensionsv1.CustomResourceDefinition{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "capstanmachines.infrastructure.capstan.dev"}, crd))
	if ns := crd.Spec.Conversion.Webhook.ClientConfig.Service.Namespace; ns != "elsewhere" ||
		!strings.HasPrefix(crd.Annotations["cert-manager.io/inject-ca-from"], "elsewhere/") {
		t.Errorf("want the conversion webhook and its authority in namespace elsewhere, got %s and the annotations %v",
			ns, crd.Annotations)
	}
	t.Attr("rule", "CT-102")
	if err := w.api.Get(t.Context(), client.ObjectKey{Name: "capstan-system"},
		&corev1.Namespace{}); !apierrors.IsNotFound(err) {
		t.Errorf("want no namespace capstan-system, got error %v", err)
	}
}
