//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider"
	"github.com/capstan-dev/capstan/release"
	"github.com/capstan-dev/capstan/test/apiserver"
)

func TestTrust(t *testing.T) {
	ours := []byte("ours")
	hooks := &admissionregistrationv1.ValidatingWebhookConfiguration{
		Webhooks: make([]admissionregistrationv1.ValidatingWebhook, 2),
	}
	hooks.Webhooks[1].ClientConfig.CABundle = ours
	if !trustHooks(hooks, ours) || string(hooks.Webhooks[0].ClientConfig.CABundle) != "ours" || trustHooks(hooks, ours) {
		t.Errorf("the trust in the webhooks is %+v", hooks.Webhooks)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if trustConversion(crd, ours) {
		t.Error("a definition without conversion was changed")
	}
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Webhook: &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{}},
	}
	if !trustConversion(crd, ours) || string(crd.Spec.Conversion.Webhook.ClientConfig.CABundle) != "ours" ||
		trustConversion(crd, ours) {
		t.Errorf("the trust in the conversion webhook is %+v", crd.Spec.Conversion.Webhook.ClientConfig)
	}
}

// TestOwnCertificates installs the components without cert-manager and starts the manager as in the Deployment. The API
// server reaches the manager through the Service, which leads to this machine, and trusts the certificate that the
// manager itself wrote with its own rights.
func TestOwnCertificates(t *testing.T) {
	core, err := apiserver.Core("clusters", "machines")
	if err != nil {
		t.Fatal(err)
	}
	server, err := apiserver.Start(apiserver.Options{CRDs: core})
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Errorf("stopping the API server: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	scheme := runtime.NewScheme()
	c.must(errors.Join(clientgoscheme.AddToScheme(scheme), provider.AddToScheme(scheme),
		apiextensionsv1.AddToScheme(scheme)))
	c.api, err = client.New(server.Config, client.Options{Scheme: scheme})
	c.must(err)
	c.asInstalled(server.Config)
	const version = "v0.1.0"
	files, err := release.Repository(release.Options{Version: version, Source: apiserver.Root()})
	c.must(err)
	port := server.Webhooks.LocalServingPort
	// Fill in the variables like clusterctl when the user sets none.
	components, err := yamlprocessor.NewSimpleProcessor().
		Process(files[release.Infrastructure+"/"+version+"/"+release.OwnCertificatesComponents],
			func(name string) (string, error) { return "", fmt.Errorf("%s is not set", name) })
	c.must(err)
	var arguments []string
	for document := range bytes.SplitSeq(components, []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		c.must(yaml.Unmarshal(document, &o.Object))
		switch {
		case o.GetKind() == "CustomResourceDefinition":
			crd := &apiextensionsv1.CustomResourceDefinition{}
			c.must(yaml.Unmarshal(document, crd))
			if crd.Spec.Conversion != nil {
				crd.Spec.Conversion.Webhook.ClientConfig.Service.Port = ptr.To(int32(port))
			}
			c.must(c.api.Create(t.Context(), crd))
		case o.GetKind() == "ValidatingWebhookConfiguration":
			hooks := &admissionregistrationv1.ValidatingWebhookConfiguration{}
			c.must(yaml.Unmarshal(document, hooks))
			for i := range hooks.Webhooks {
				hooks.Webhooks[i].ClientConfig.Service.Port = ptr.To(int32(port))
			}
			c.must(c.api.Create(t.Context(), hooks))
		case o.GetKind() == "Service":
			c.must(c.api.Create(t.Context(), &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()},
				Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
			}))
		case o.GetKind() == "Deployment":
			deployment := &appsv1.Deployment{}
			c.must(yaml.Unmarshal(document, deployment))
			arguments = argumentsOf(deployment)
		case o.GetName() == "capstan-manager-certificates":
			c.must(c.api.Create(t.Context(), o))
		}
	}
	c.until("the definitions are served", func() bool {
		return c.api.List(t.Context(), &infrav1.CapstanMachineList{}) == nil &&
			c.api.List(t.Context(), &infrav1.CapstanHostList{}) == nil &&
			c.api.List(t.Context(), &infrav1.CapstanClusterList{}) == nil
	})
	if !slices.Contains(arguments, "--webhook-own-certificates=capstan-system") ||
		!slices.Contains(arguments, "--watch-filter=") {
		t.Fatalf("the Deployment starts the manager with %q", arguments)
	}
	c.start(append(arguments, fmt.Sprintf("--webhook-port=%d", port))...)
	stored := &infrav1.CapstanMachine{Spec: infrav1.CapstanMachineSpec{ProviderID: "capstan://default/host-1/12345678"}}
	stored.Namespace, stored.Name = "default", "m"
	c.until("the API server calls the admission webhook",
		func() bool { return c.api.Create(t.Context(), stored.DeepCopy()) == nil })
	old := &unstructured.Unstructured{}
	old.SetAPIVersion("infrastructure.capstan.dev/v1beta1")
	old.SetKind("CapstanMachine")
	c.until("the manager converts an object", func() bool {
		return c.api.Get(t.Context(), client.ObjectKeyFromObject(stored), old) == nil
	})
	if _, ok, _ := unstructured.NestedBool(old.Object, "status", "ready"); !ok {
		t.Errorf("as v1beta1, the object has no status.ready: %v", old.Object)
	}
}

// argumentsOf returns the arguments of a Deployment's container as a kubelet would pass them, with the variables of the
// container's environment.
func argumentsOf(d *appsv1.Deployment) []string {
	var arguments []string
	c := d.Spec.Template.Spec.Containers[0]
	for _, a := range c.Args {
		for _, e := range c.Env {
			value := e.Value
			if from := e.ValueFrom; from != nil && from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.namespace" {
				value = d.Namespace
			}
			a = strings.ReplaceAll(a, "$("+e.Name+")", value)
		}
		arguments = append(arguments, a)
	}
	return arguments
}
