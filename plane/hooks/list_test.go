package hooks

import (
	"slices"
	"testing"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/hook"
)

func TestList(t *testing.T) {
	handler := func(name, version, hook string) runtimev1.ExtensionHandler {
		of := runtimev1.GroupVersionHook{APIVersion: "hooks.runtime.cluster.x-k8s.io/" + version, Hook: hook}
		return runtimev1.ExtensionHandler{Name: name, RequestHook: of}
	}
	installed := make([]runtimev1.ExtensionConfig, 2)
	installed[0].Status.Handlers = []runtimev1.ExtensionHandler{
		handler("a.one", "v1alpha1", "BeforeClusterCreate"), handler("old.one", "v0", "BeforeClusterCreate"),
	}
	installed[1].Status.Handlers = []runtimev1.ExtensionHandler{handler("b.two", "v1alpha1", "BeforeClusterCreate")}
	all := List(hook.ClusterAPI(), installed)
	if len(all) != len(hook.ClusterAPI().All()) {
		t.Fatalf("List returned %d hooks, want all of the catalog", len(all))
	}
	for name, c := range map[string]struct {
		hook     string
		handlers []string
		blocks   bool
	}{
		"two extensions have handlers in the listed version": {"BeforeClusterCreate", []string{"a.one", "b.two"}, true},
		"no extension has a handler":                         {"BeforeClusterDelete", []string{}, true},
		"the hook can't block":                               {"AfterControlPlaneInitialized", []string{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(all, func(h Hook) bool { return h.Hook == c.hook })
			if i < 0 {
				t.Fatal("the hook is not listed")
			}
			got := all[i]
			if !slices.Equal(got.Handlers, c.handlers) || got.Handlers == nil || got.Blocks != c.blocks {
				t.Errorf("got %+v", got)
			}
		})
	}
}
