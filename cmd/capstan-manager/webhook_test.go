//go:build linux

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider"
	"github.com/capstan-dev/capstan/test/apiserver"
)

// TestManagerConverts reads an object in the other API version, which only the manager can convert.
func TestManagerConverts(t *testing.T) {
	ours, err := apiserver.Capstan()
	if err != nil {
		t.Fatal(err)
	}
	core, err := apiserver.Core("clusters", "machines")
	if err != nil {
		t.Fatal(err)
	}
	server, err := apiserver.Start(apiserver.Options{CRDs: core, Converted: ours})
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
	c.must(errors.Join(clientgoscheme.AddToScheme(scheme), provider.AddToScheme(scheme)))
	c.api, err = client.New(server.Config, client.Options{Scheme: scheme})
	c.must(err)

	c.asInstalled(server.Config)
	stored := &infrav1.CapstanMachine{Spec: infrav1.CapstanMachineSpec{ProviderID: "capstan://default/host-1/12345678"}}
	stored.Namespace, stored.Name = "default", "m"
	c.must(c.api.Create(t.Context(), stored))
	old := &unstructured.Unstructured{}
	old.SetAPIVersion("infrastructure.capstan.dev/v1beta1")
	old.SetKind("CapstanMachine")
	if err := c.api.Get(t.Context(), client.ObjectKeyFromObject(stored), old); err == nil {
		t.Fatal("the object is converted without a manager, so this test proves nothing")
	}
	c.start("--webhook-cert-dir="+server.Webhooks.LocalServingCertDir,
		fmt.Sprintf("--webhook-port=%d", server.Webhooks.LocalServingPort))
	c.until("the manager converts an object", func() bool {
		return c.api.Get(t.Context(), client.ObjectKeyFromObject(stored), old) == nil
	})
	if id, _, _ := unstructured.NestedString(old.Object, "spec", "providerID"); id != stored.Spec.ProviderID {
		t.Errorf("as v1beta1, the object is %v", old.Object)
	}
	if _, ok, _ := unstructured.NestedBool(old.Object, "status", "ready"); !ok {
		t.Errorf("as v1beta1, the object has no status.ready: %v", old.Object)
	}
}
