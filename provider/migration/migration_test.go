package migration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/capstan-dev/capstan/provider/migration"
	"github.com/capstan-dev/capstan/provider/webhook"
	"github.com/capstan-dev/capstan/test/apiserver"
)

// patience bounds each wait. It is long because the machine may be busy.
const patience = time.Minute

// TestUpgrade installs the definitions as a release with only v1beta1 would have had them, stores an object of each
// kind, installs today's definitions over them, and starts the manager. All objects must still exist, stored in today's
// version.
func TestUpgrade(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	today, err := apiserver.Capstan()
	must(t, err)
	var older []*apiextensionsv1.CustomResourceDefinition
	for _, crd := range today {
		if len(crd.Spec.Versions) > 1 {
			older = append(older, onlyOld(crd))
		}
	}
	if len(older) != 4 {
		t.Fatalf("%d kinds have an older version, want 4", len(older))
	}
	s, err := apiserver.Start(apiserver.Options{CRDs: older})
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stopping the API server: %v", err)
		}
	})
	must(t, err)
	scheme := runtime.NewScheme()
	must(t, errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme),
		webhook.AddToScheme(scheme)))
	api, err := client.New(s.Config, client.Options{Scheme: scheme})
	must(t, err)

	stored := map[string]*unstructured.Unstructured{}
	for _, crd := range older {
		u := oldObject(crd.Spec.Names.Kind)
		status := u.Object["status"]
		must(t, api.Create(t.Context(), u))
		if status != nil {
			u.Object["status"] = status
			must(t, api.Status().Update(t.Context(), u))
		}
		stored[u.GetKind()] = u
	}

	for _, crd := range today {
		install(t, api, crd, s)
	}
	start(t, s, scheme)

	for _, crd := range older {
		await(t, crd.Name+" has objects of today's version only", func() error {
			now := &apiextensionsv1.CustomResourceDefinition{}
			if err := api.Get(t.Context(), client.ObjectKey{Name: crd.Name}, now); err != nil {
				return err
			}
			if v := now.Status.StoredVersions; len(v) != 1 || v[0] != "v1beta2" {
				return fmt.Errorf("stored versions are %v", v)
			}
			return nil
		})
	}
	for kind, was := range stored {
		is := &unstructured.Unstructured{}
		is.SetGroupVersionKind(was.GroupVersionKind())
		must(t, api.Get(t.Context(), client.ObjectKeyFromObject(was), is))
		if is.GetUID() != was.GetUID() || fmt.Sprint(is.Object["spec"]) != fmt.Sprint(was.Object["spec"]) ||
			fmt.Sprint(is.Object["status"]) != fmt.Sprint(was.Object["status"]) {
			t.Errorf("%s was\n%v\nand is\n%v", kind, was.Object, is.Object)
		}
		if is.GetResourceVersion() == was.GetResourceVersion() {
			t.Errorf("%s was not written again", kind)
		}
	}

	// The proof is that v1beta1 can be removed.
	for _, crd := range today {
		// The API server writes its own conditions in between.
		must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			now := &apiextensionsv1.CustomResourceDefinition{}
			must(t, api.Get(t.Context(), client.ObjectKeyFromObject(crd), now))
			now.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{version(now, "v1beta2")}
			now.Spec.Conversion = nil
			return api.Update(t.Context(), now)
		}))
	}
	m := &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": "infrastructure.capstan.dev/v1beta2", "kind": "CapstanMachine"},
	}
	await(t, "a machine is read without conversion", func() error {
		return api.Get(t.Context(), client.ObjectKeyFromObject(stored["CapstanMachine"]), m)
	})
	if host, _, _ := unstructured.NestedString(m.Object, "status", "host"); host != "host-1" {
		t.Errorf("the machine is %v", m.Object)
	}
}

// onlyOld returns the definition as it was before v1beta2 existed.
func onlyOld(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	crd = crd.DeepCopy()
	old := version(crd, "v1beta1")
	old.Storage = true
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{old}
	delete(crd.Labels, "cluster.x-k8s.io/v1beta2")
	return crd
}

func version(crd *apiextensionsv1.CustomResourceDefinition,
	name string) apiextensionsv1.CustomResourceDefinitionVersion {
	for _, v := range crd.Spec.Versions {
		if v.Name == name {
			return v
		}
	}
	panic(crd.Name + " has no version " + name)
}

// oldObject returns a v1beta1 object.
func oldObject(kind string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "infrastructure.capstan.dev/v1beta1", "kind": kind,
		"metadata": map[string]any{
			"name": "old", "namespace": "default", "labels": map[string]any{"cluster.x-k8s.io/cluster-name": "old"},
		},
	}}
	endpoint := map[string]any{"controlPlaneEndpoint": map[string]any{"host": "10.0.0.1", "port": int64(6443)}}
	conditions := []any{map[string]any{
		"type": "Ready", "status": "False", "severity": "Error", "reason": "Bad", "message": "it was",
		"lastTransitionTime": "2026-01-01T00:00:00Z",
	}}
	switch kind {
	case "CapstanMachine":
		u.Object["spec"] = map[string]any{"providerID": "capstan://default/host-1/12345678", "failureDomain": "zone-a"}
		u.Object["status"] = map[string]any{
			"ready": true, "host": "host-1", "conditions": conditions, "failureReason": "CreateError",
			"failureMessage": "so it is",
		}
	case "CapstanCluster":
		u.Object["spec"] = endpoint
		u.Object["status"] = map[string]any{
			"ready": true, "conditions": conditions, "failureDomains": map[string]any{
				"zone-a": map[string]any{"controlPlane": true},
			},
		}
	case "CapstanMachineTemplate":
		u.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"failureDomain": "zone-b"}}}
	case "CapstanClusterTemplate":
		u.Object["spec"] = map[string]any{"template": map[string]any{"spec": endpoint}}
	}
	return u
}

// install writes today's definition, with conversion by webhook, as an upgrade does.
func install(t *testing.T, api client.Client, crd *apiextensionsv1.CustomResourceDefinition, s *apiserver.Server) {
	t.Helper()
	crd = crd.DeepCopy()
	if len(crd.Spec.Versions) > 1 {
		url := fmt.Sprintf("https://%s:%d/convert", s.Webhooks.LocalServingHost, s.Webhooks.LocalServingPort)
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{
				ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: s.Webhooks.LocalServingCAData},
				ConversionReviewVersions: []string{"v1"},
			},
		}
	}
	old := &apiextensionsv1.CustomResourceDefinition{}
	err := api.Get(t.Context(), client.ObjectKeyFromObject(crd), old)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err != nil {
		must(t, api.Create(t.Context(), crd))
		return
	}
	must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(crd), old); err != nil {
			return err
		}
		crd.ResourceVersion = old.ResourceVersion
		return api.Update(t.Context(), crd)
	}))
}

// start runs the manager: conversion webhooks and migration.
func start(t *testing.T, s *apiserver.Server, scheme *runtime.Scheme) {
	t.Helper()
	w := s.Webhooks
	mgr, err := ctrl.NewManager(s.Config, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)}, // -count repeats the test in one process
		WebhookServer: ctrlwebhook.NewServer(ctrlwebhook.Options{
			Host: w.LocalServingHost, Port: w.LocalServingPort, CertDir: w.LocalServingCertDir,
		}),
	})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	must(t, errors.Join(webhook.Setup(mgr), migration.Setup(ctx, mgr)))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with: %v", err)
		}
	})
}

// await waits until the function returns no error.
func await(t *testing.T, what string, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s: %v", patience, what, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
