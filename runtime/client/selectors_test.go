package client_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

func TestNamespaceSelector(t *testing.T) {
	namespaces := &namespaceReader{labels: map[string]map[string]string{"default": {"env": "prod"}, "test": {}}}
	b := newBench(t, client.Options{Reader: namespaces})
	b.extension("all", nil, server.Handle(hook.BeforeClusterCreate, "h", says("all")))
	for _, name := range []string{"prod-1", "prod-2"} {
		b.extension(name, func(config *runtimev1.ExtensionConfig) {
			config.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
		}, server.Handle(hook.BeforeClusterCreate, "h", says(name)))
	}
	get := func(namespace string) string {
		cluster := testCluster()
		cluster.Namespace = namespace
		names, err := b.client.GetAllExtensions(t.Context(), runtimehooksv1.BeforeClusterCreate, cluster)
		if err != nil {
			return err.Error()
		}
		return strings.Join(names, " ")
	}
	if got := get("default"); got != "h.all h.prod-1 h.prod-2" {
		t.Errorf("for a namespace that matches: %s", got)
	}
	if namespaces.reads.Load() != 1 {
		t.Errorf("the namespace was read %d times", namespaces.reads.Load())
	}
	if got := get("test"); got != "h.all" {
		t.Errorf("for a namespace that does not match: %s", got)
	}
	t.Attr("rule", "CL-18")
	t.Attr("rule", "RC-10")
	if got := get(""); got != "h.all" {
		t.Errorf("for a cluster-scoped object: %s", got)
	}
	cluster := testCluster()
	cluster.Namespace = "test"
	err := b.client.CallExtension(t.Context(), runtimehooksv1.BeforeClusterCreate, cluster, "h.prod-1",
		&runtimehooksv1.BeforeClusterCreateRequest{}, &runtimehooksv1.BeforeClusterCreateResponse{})
	if err == nil || !strings.Contains(err.Error(),
		`namespaceSelector of ExtensionConfig "prod-1" does not match namespace "test"`) {
		t.Errorf("a call for a namespace that does not match: %v", err)
	}
}

// The tenth defect seen in other clients: the cause of a failed lookup of a namespace was dropped.
func TestDefectCauseOfNamespaceLookupIsKept(t *testing.T) {
	b := newBench(t, client.Options{Reader: &namespaceReader{}})
	b.extension("prod", func(config *runtimev1.ExtensionConfig) {
		config.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	}, server.Handle(hook.BeforeClusterCreate, "h", says("")))
	cluster := testCluster()
	_, listed := b.client.GetAllExtensions(t.Context(), runtimehooksv1.BeforeClusterCreate, cluster)
	called := b.client.CallExtension(t.Context(), runtimehooksv1.BeforeClusterCreate, cluster, "h.prod",
		&runtimehooksv1.BeforeClusterCreateRequest{}, &runtimehooksv1.BeforeClusterCreateResponse{})
	for _, err := range []error{listed, called} {
		if !apierrors.IsNotFound(err) {
			t.Errorf("the cause is lost: %v", err)
		}
	}
}

// Objects can be selected not only by their namespaces, but also by their own labels (RC-19).
func TestObjectSelector(t *testing.T) {
	b := newBench(t, client.Options{})
	b.extension("all", nil, server.Handle(hook.BeforeClusterCreate, "h", says("all")))
	b.extension("gold", func(config *runtimev1.ExtensionConfig) {
		config.Annotations = map[string]string{"runtime.capstan.dev/object-selector": "tier in (gold)"}
	}, server.Handle(hook.BeforeClusterCreate, "h", says("gold")))
	for tier, want := range map[string]string{"gold": "all, gold", "silver": "all", "": "all"} {
		cluster := testCluster()
		cluster.Labels = map[string]string{"tier": tier}
		response := &runtimehooksv1.BeforeClusterCreateResponse{}
		if err := b.client.CallAllExtensions(t.Context(), runtimehooksv1.BeforeClusterCreate, cluster,
			&runtimehooksv1.BeforeClusterCreateRequest{Cluster: *cluster}, response); err != nil || response.Message != want {
			t.Errorf("for tier %q: %q, %v", tier, response.Message, err)
		}
		t.Attr("rule", "RC-19")
		err := b.client.CallExtension(t.Context(), runtimehooksv1.BeforeClusterCreate, cluster, "h.gold",
			&runtimehooksv1.BeforeClusterCreateRequest{Cluster: *cluster}, response)
		if (err == nil) != (tier == "gold") {
			t.Errorf("by name, for tier %q: %v", tier, err)
		}
	}
}

// namespaceReader reads namespaces from a map.
type namespaceReader struct {
	labels map[string]map[string]string
	reads  atomic.Int32
}

func (r *namespaceReader) Get(_ context.Context, key ctrlclient.ObjectKey, object ctrlclient.Object,
	_ ...ctrlclient.GetOption) error {
	r.reads.Add(1)
	labels, ok := r.labels[key.Name]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, key.Name)
	}
	object.SetLabels(labels)
	return nil
}

func (r *namespaceReader) List(context.Context, ctrlclient.ObjectList, ...ctrlclient.ListOption) error {
	return errors.New("nobody lists")
}
