package hooks

import (
	"slices"
	"testing"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/hook"
)

func TestList(t *testing.T) {
	handler := func(name, version, hook string) runtimev1.ExtensionHandler {
		return runtimev1.ExtensionHandler{
			Name: name, RequestHook: runtimev1.GroupVersionHook{APIVersion: "hooks.runtime.cluster.x-k8s.io/" + version, Hook: hook},
		}
	}
	installed := []runtimev1.ExtensionConfig{
		{Status: runtimev1.ExtensionConfigStatus{Handlers: []runtimev1.ExtensionHandler{
			handler("a.one", "v1alpha1", "BeforeClusterCreate"), handler("old.one", "v0", "BeforeClusterCreate"),
		}}},
		{Status: runtimev1.ExtensionConfigStatus{Handlers: []runtimev1.ExtensionHandler{handler("b.two", "v1alpha1", "BeforeClusterCreate")}}},
	}
	all := List(hook.ClusterAPI(), installed)
	if len(all) != len(hook.ClusterAPI().All()) {
		t.Fatalf("%d hooks are listed", len(all))
	}
	for name, c := range map[string]struct {
		hook     string
		handlers []string
		blocks   bool
	}{
		"handled by two, in the version that they serve": {"BeforeClusterCreate", []string{"a.one", "b.two"}, true},
		"handled by nobody":           {"BeforeClusterDelete", []string{}, true},
		"one that holds nothing back": {"AfterControlPlaneInitialized", []string{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(all, func(h Hook) bool { return h.Hook == c.hook })
			if i < 0 || !slices.Equal(all[i].Handlers, c.handlers) || all[i].Handlers == nil || all[i].Blocks != c.blocks {
				t.Errorf("got %+v", all[max(i, 0)])
			}
		})
	}
}
