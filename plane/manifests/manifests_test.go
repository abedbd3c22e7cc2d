package manifests

import (
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var webhooks = Webhooks{Address: "127.0.0.1:9443", CABundle: []byte("authority")}

// generated skips tests of upstream's manifests if they have not been generated.
func generated(t *testing.T) {
	t.Helper()
	if _, err := Version(); errors.Is(err, ErrMissing) {
		t.Skip("run make generate first")
	}
}

// crdView contains what the tests read from a definition.
type crdView struct {
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Spec struct {
		Group      string
		Versions   []struct{ Name string }
		Conversion struct {
			Strategy string
			Webhook  struct {
				ClientConfig struct {
					URL      string
					CABundle []byte
					Service  any
				}
				ConversionReviewVersions []string
			}
		}
	}
}

func TestCRDs(t *testing.T) {
	generated(t)
	objects, err := CRDs(webhooks, "")
	if err != nil {
		t.Fatal(err)
	}
	perProvider := map[string]int{}
	for _, object := range objects {
		var crd crdView
		if err := json.Unmarshal(object.JSON, &crd); err != nil {
			t.Fatal(err)
		}
		if crd.Metadata.Name != object.Name || !object.IsCRD() ||
			!strings.HasSuffix(object.Collection, "/customresourcedefinitions") {
			t.Errorf("the object for the definition %s is %+v", crd.Metadata.Name, object)
		}
		label := crd.Metadata.Labels["cluster.x-k8s.io/provider"]
		perProvider[label]++
		if label == "" { // clusterctl's own
			continue
		}
		if _, ok := crd.Metadata.Labels["clusterctl.cluster.x-k8s.io"]; !ok {
			t.Errorf("clusterctl would not move the objects of %s", object.Name)
		}
		config := crd.Spec.Conversion.Webhook.ClientConfig
		ours := label == "infrastructure-capstan"
		if !ours || len(crd.Spec.Versions) > 1 {
			if crd.Spec.Conversion.Strategy != "Webhook" || config.URL != "https://127.0.0.1:9443/convert" ||
				string(config.CABundle) != "authority" || config.Service != nil {
				t.Errorf("the conversion of %s is %+v", object.Name, crd.Spec.Conversion)
			}
		}
		_, contract := crd.Metadata.Labels["cluster.x-k8s.io/v1beta2"]
		if want := label != "cluster-api"; contract != want {
			t.Errorf("does %s have a contract label? got %v, want %v", object.Name, contract, want)
		}
	}
	want := map[string]int{"cluster-api": 13, "bootstrap-kubeadm": 2, "control-plane-kubeadm": 2, "": 1}
	for label, n := range want {
		if perProvider[label] != n {
			t.Errorf("provider %q has %d definitions, want %d", label, perProvider[label], n)
		}
	}
	if perProvider["infrastructure-capstan"] == 0 {
		t.Error("Capstan's own definitions are missing")
	}
}

// TestCRDsForOneContract: with these definitions, Cluster API uses an older contract for Capstan's provider.
func TestCRDsForOneContract(t *testing.T) {
	generated(t)
	objects, err := CRDs(webhooks, "v1beta1")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, object := range objects {
		var crd crdView
		if err := json.Unmarshal(object.JSON, &crd); err != nil {
			t.Fatal(err)
		}
		if crd.Metadata.Labels["cluster.x-k8s.io/provider"] != "infrastructure-capstan" {
			continue
		}
		seen++
		if newer, ok := crd.Metadata.Labels["cluster.x-k8s.io/v1beta2"]; ok {
			t.Errorf("%s also has a label for contract v1beta2, with the versions %s", object.Name, newer)
		}
		if len(crd.Spec.Versions) > 1 && crd.Metadata.Labels["cluster.x-k8s.io/v1beta1"] != "v1beta1" {
			t.Errorf("the labels of %s are %v", object.Name, crd.Metadata.Labels)
		}
	}
	if seen != 5 {
		t.Errorf("got %d definitions of Capstan, want 5", seen)
	}
}

func TestWebhookConfigurations(t *testing.T) {
	generated(t)
	objects, err := WebhookConfigurations(webhooks)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	var urls []string
	for _, object := range objects {
		if id := object.Kind + "/" + object.Name; names[id] {
			t.Errorf("two objects have the name %s", id)
		} else {
			names[id] = true
		}
		var config struct {
			Webhooks []struct {
				Name         string
				ClientConfig map[string]string
			}
		}
		if err := json.Unmarshal(object.JSON, &config); err != nil {
			t.Fatal(err)
		}
		for _, hook := range config.Webhooks {
			if len(hook.ClientConfig) != 2 || !strings.HasPrefix(hook.ClientConfig["url"], "https://127.0.0.1:9443/") ||
				hook.ClientConfig["caBundle"] == "" {
				t.Errorf("the webhook %s of %s is called with %v", hook.Name, object.Name, hook.ClientConfig)
			}
			urls = append(urls, hook.ClientConfig["url"])
		}
	}
	if !names["ValidatingWebhookConfiguration/capstan-validating-webhook-configuration"] ||
		!names["MutatingWebhookConfiguration/capi-mutating-webhook-configuration"] {
		t.Errorf("the names of the webhook configurations are %v", names)
	}
	slices.Sort(urls)
	if len(urls) < 25 || len(slices.Compact(urls)) != len(urls) {
		t.Errorf("two webhooks have the same path, or some are missing: %v", urls)
	}
}

func TestWebhookConfigurationsRefuseWhatTheyCannotCall(t *testing.T) {
	generated(t)
	cases := map[string]string{
		"a webhook without a path": `{"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "x"}, "webhooks": [{"name": "y", "clientConfig": {}}]}`,
		"another kind":             `{"kind": "Secret", "metadata": {"name": "x"}, "webhooks": []}`,
		"not JSON":                 "{",
	}
	for name, document := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := fitWebhooks(providers[0], []byte(document), webhooks); err == nil {
				t.Error("the webhook configuration was accepted")
			}
		})
	}
}

func TestHashFollowsContent(t *testing.T) {
	generated(t)
	hashes := func(w Webhooks) map[string]string {
		objects, err := CRDs(w, "")
		if err != nil {
			t.Fatal(err)
		}
		m := map[string]string{}
		for _, o := range objects {
			m[o.Name] = o.Hash()
		}
		return m
	}
	const name = "clusters.cluster.x-k8s.io"
	same, moved := hashes(webhooks), hashes(Webhooks{Address: "127.0.0.1:9999", CABundle: webhooks.CABundle})
	if again := hashes(webhooks); again[name] != same[name] {
		t.Error("the same definition has two hashes, so every start would write it")
	}
	if moved[name] == same[name] {
		t.Error("a moved webhook does not change the hash, so the definition would keep the old address")
	}
}

func TestVersionIsThatOfTheModule(t *testing.T) {
	generated(t)
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := Version(); got != strings.TrimSpace(string(out)) {
		t.Errorf("the version of the manifests is %s, that of the code %s: run make generate", got, out)
	}
}

func TestAccess(t *testing.T) {
	objects, err := Access()
	if err != nil {
		t.Fatal(err)
	}
	roles := map[string]bool{}
	bound := map[string][]string{}
	for _, object := range objects {
		var view struct {
			Kind     string
			Metadata struct{ Name string }
			RoleRef  struct{ Name string }
			Rules    []struct {
				APIGroups, Resources, Verbs []string
			}
			Subjects []struct{ Name string }
		}
		if err := yaml.Unmarshal(object.JSON, &view); err != nil {
			t.Fatal(err)
		}
		roles[view.Metadata.Name] = view.Kind == "ClusterRole"
		for _, subject := range view.Subjects {
			bound[subject.Name] = append(bound[subject.Name], view.RoleRef.Name)
		}
		for _, rule := range view.Rules {
			if slices.Contains(rule.Verbs, "*") || slices.Contains(rule.APIGroups, "*") ||
				slices.Contains(rule.Verbs, "escalate") || slices.Contains(rule.Verbs, "bind") {
				t.Errorf("the role %s grants too much: %+v", view.Metadata.Name, rule)
			}
		}
	}
	for _, role := range []string{"system:controller:generic-garbage-collector",
		"system:controller:namespace-controller"} {
		if !slices.Contains(bound["system:kube-controller-manager"], role) {
			t.Errorf("kube-controller-manager lacks %s", role)
		}
	}
	for _, user := range []string{"capstan:manager", "capstan:extension"} {
		if len(bound[user]) == 0 {
			t.Errorf("user %s has no roles", user)
		}
	}
}

func TestInventory(t *testing.T) {
	generated(t)
	objects, err := Inventory("v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	namespaces, versions := map[string]bool{}, map[string]string{}
	for _, object := range objects {
		if object.Kind == "Namespace" {
			namespaces[object.Name] = true
			continue
		}
		if !namespaces[object.Namespace] {
			t.Errorf("the object %s comes before its namespace", object.Name)
		}
		var provider struct{ ProviderName, Type, Version string }
		if err := json.Unmarshal(object.JSON, &provider); err != nil {
			t.Fatal(err)
		}
		versions[provider.Type+"/"+provider.ProviderName] = provider.Version
	}
	upstream, _ := Version()
	want := map[string]string{
		"CoreProvider/cluster-api": upstream, "BootstrapProvider/kubeadm": upstream, "ControlPlaneProvider/kubeadm": upstream,
		"InfrastructureProvider/capstan": "v0.1.0",
	}
	for name, version := range want {
		if versions[name] != version {
			t.Errorf("the version of %s is %q, want %q", name, versions[name], version)
		}
	}
}
