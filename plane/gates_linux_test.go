package plane_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

// asked is an extension that records its requests.
type asked struct {
	*httptest.Server
	mu    sync.Mutex
	paths []string
}

// newAsked starts an extension with handlers for the beginning and the end of a cluster's life.
func newAsked(t *testing.T) *asked {
	t.Helper()
	handlers, err := server.New(server.Options{},
		server.Handle(hook.BeforeClusterCreate, "create", func(
			context.Context, *runtimehooksv1.BeforeClusterCreateRequest, *runtimehooksv1.BeforeClusterCreateResponse,
		) error {
			return nil
		}),
		server.Handle(hook.BeforeClusterDelete, "delete", func(
			context.Context, *runtimehooksv1.BeforeClusterDeleteRequest, *runtimehooksv1.BeforeClusterDeleteResponse,
		) error {
			return nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	a := &asked{}
	a.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.paths = append(a.paths, r.URL.Path)
		a.mu.Unlock()
		handlers.ServeHTTP(w, r)
	}))
	t.Cleanup(a.Close)
	return a
}

// since returns the requests after the first n.
func (a *asked) since(n int) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.paths[n:]...)
}

// was returns an error unless the extension got a request for the hook.
func (a *asked) was(hook string) error {
	for _, path := range a.since(0) {
		if strings.Contains(path, strings.ToLower(hook)) {
			return nil
		}
	}
	return fmt.Errorf("the extension got only the requests %q", a.since(0))
}

// config returns an ExtensionConfig that leads to the extension.
func (a *asked) config(name string) *runtimev1.ExtensionConfig {
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
	config.Spec.ClientConfig.URL = a.URL
	config.Spec.ClientConfig.CABundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})
	config.Spec.NamespaceSelector = &metav1.LabelSelector{}
	return config
}

// TestRuntimeSDKGate runs a plane with the gate on, and then, with the same data, with the gate off (T-RC-01: RC-02,
// RC-24).
func TestRuntimeSDKGate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plane")
	ctx := bounded(t)
	extension := newAsked(t)

	open := start(t, dir)
	if all := open.state().FeatureGates; !all["RuntimeSDK"] || !all["InPlaceUpdates"] ||
		!all["MachineTaintPropagation"] {
		t.Errorf("with the gate on, the gates are %v", all)
	}
	c := open.client()
	config := extension.config("asked")
	if err := c.Create(ctx, config); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the extension to be discovered", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(config), config); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(config.Status.Conditions, runtimev1.ExtensionConfigDiscoveredCondition) {
			return fmt.Errorf("the conditions are %+v", config.Status.Conditions)
		}
		return nil
	})
	before := topology("before", "v1.36.3")
	if err := c.Create(ctx, before); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the extension to be called", func() error { return extension.was("BeforeClusterCreate") })
	open.stop()

	t.Setenv("PLANE_GATES", "RuntimeSDK=false")
	asked := len(extension.since(0))
	closed := start(t, dir)
	if all := closed.state().FeatureGates; all["RuntimeSDK"] || all["InPlaceUpdates"] || !all["ClusterTopology"] {
		t.Errorf("with the gate off, the gates are %v", all)
	}
	c = closed.client()
	for what, err := range map[string]error{
		"a new ExtensionConfig":          c.Create(ctx, extension.config("refused")),
		"a change of an ExtensionConfig": change(ctx, c, config),
	} {
		if !apierrors.IsForbidden(err) ||
			!strings.Contains(err.Error(), "only if the RuntimeSDK feature flag is enabled") {
			t.Errorf("%s: got error %v, want a refusal that names the gate", what, err)
		}
	}
	t.Attr("rule", "RC-02")

	// With the gate off, hooks can't block a Cluster.
	after := topology("after", "v1.36.3")
	if err := c.Create(ctx, after); err != nil {
		t.Fatal(err)
	}
	eventually(t, "machines of a cluster", func() error {
		var machines clusterv1.MachineList
		err := c.List(
			ctx,
			&machines,
			client.InNamespace("default"),
			client.MatchingLabels{clusterv1.ClusterNameLabel: "after"},
		)
		if err == nil && len(machines.Items) == 0 {
			err = fmt.Errorf("there is no machine")
		}
		return err
	})
	if err := c.Delete(ctx, before); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the earlier cluster to be gone", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(before), before); !apierrors.IsNotFound(err) {
			deleting := meta.FindStatusCondition(before.Status.Conditions, clusterv1.ClusterDeletingCondition)
			return fmt.Errorf("the cluster still exists, with the condition %+v and error %v", deleting, err)
		}
		return nil
	})
	if requests := extension.since(asked); len(requests) > 0 {
		t.Errorf("with the gate off, the extension got the requests %q", requests)
	}
	t.Attr("rule", "RC-24")
	if err := c.Delete(ctx, config); err != nil {
		t.Errorf("an ExtensionConfig from before can't be deleted: %v", err)
	}
	closed.stop()
}

// change writes an annotation.
func change(ctx context.Context, c client.Client, config *runtimev1.ExtensionConfig) error {
	fresh := config.DeepCopy()
	fresh.Annotations = map[string]string{"changed": "yes"}
	return c.Patch(ctx, fresh, client.MergeFrom(config))
}
