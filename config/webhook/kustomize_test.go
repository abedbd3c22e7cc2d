package webhook_test

import (
	"bytes"
	"os/exec"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/test/apiserver"
)

// document holds the fields of an object that the test checks.
type document struct {
	Kind     string
	Metadata struct {
		Name, Namespace string
		Annotations     map[string]string
	}
	Spec struct {
		Versions   []struct{ Name string }
		Conversion struct {
			Strategy string
			Webhook  struct{ ClientConfig client }
		}
		DNSNames   []string
		SecretName string
		IssuerRef  struct{ Name string }
	}
	Webhooks []struct{ ClientConfig client }
}

type client struct {
	Service struct{ Name, Namespace, Path string }
}

// TestKustomize builds the objects for a management cluster: all webhooks and conversions name the same Service, the
// certificate is valid for the Service's name, and the API server gets the certificate's authority.
func TestKustomize(t *testing.T) {
	byKind := map[string][]document{}
	for _, directory := range []string{"../crd", "."} {
		for _, d := range build(t, directory) {
			byKind[d.Kind] = append(byKind[d.Kind], d)
		}
	}
	for kind, want := range map[string]int{
		"Service": 1, "Certificate": 1, "Issuer": 1, "ValidatingWebhookConfiguration": 1, "CustomResourceDefinition": 5,
	} {
		if len(byKind[kind]) != want {
			t.Fatalf("there are %d objects of kind %s, want %d", len(byKind[kind]), kind, want)
		}
	}
	service, certificate := byKind["Service"][0].Metadata, byKind["Certificate"][0]
	authority := certificate.Metadata.Namespace + "/" + certificate.Metadata.Name
	if !slices.Contains(certificate.Spec.DNSNames, service.Name+"."+service.Namespace+".svc") {
		t.Errorf("the certificate is for %v", certificate.Spec.DNSNames)
	}
	if certificate.Spec.IssuerRef.Name != byKind["Issuer"][0].Metadata.Name ||
		certificate.Spec.SecretName != "capstan-webhook-service-cert" {
		t.Errorf("the certificate is %+v", certificate.Spec)
	}
	calls := func(what string, d document, c client) {
		t.Helper()
		if c.Service.Name != service.Name || c.Service.Namespace != service.Namespace || c.Service.Path == "" {
			t.Errorf("%s is at %+v, want Service %s in %s", what, c.Service, service.Name, service.Namespace)
		}
		if d.Metadata.Annotations["cert-manager.io/inject-ca-from"] != authority {
			t.Errorf("%s has the annotations %v, want the authority of %s injected",
				what, d.Metadata.Annotations, authority)
		}
	}
	hooks := byKind["ValidatingWebhookConfiguration"][0]
	if len(hooks.Webhooks) != 4 {
		t.Errorf("%d admission webhooks, want 4", len(hooks.Webhooks))
	}
	for _, hook := range hooks.Webhooks {
		calls("an admission webhook", hooks, hook.ClientConfig)
	}
	for _, crd := range byKind["CustomResourceDefinition"] {
		if len(crd.Spec.Versions) == 1 {
			if crd.Spec.Conversion.Strategy != "" {
				t.Errorf("%s has only one version, but a conversion strategy", crd.Metadata.Name)
			}
			continue
		}
		if crd.Spec.Conversion.Strategy != "Webhook" {
			t.Errorf("%s has conversion strategy %q: the API server would only change the name of the version",
				crd.Metadata.Name, crd.Spec.Conversion.Strategy)
		}
		calls("the conversion of "+crd.Metadata.Name, crd, crd.Spec.Conversion.Webhook.ClientConfig)
	}
}

// build runs kustomize, which is a part of kubectl.
func build(t *testing.T, directory string) (all []document) {
	t.Helper()
	kube, err := apiserver.Bundle()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), kube, "kubectl", "kustomize", directory).CombinedOutput()
	if err != nil {
		t.Fatalf("kustomize %s: %v\n%s", directory, err, out)
	}
	for _, text := range bytes.Split(out, []byte("\n---\n")) {
		var d document
		if err := yaml.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}
