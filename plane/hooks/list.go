package hooks

import (
	"context"
	"fmt"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/hook"
)

// Installed returns the extensions that are registered in a management cluster.
func Installed(ctx context.Context, c client.Reader) ([]runtimev1.ExtensionConfig, error) {
	list := &runtimev1.ExtensionConfigList{}
	if err := c.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing ExtensionConfigs: %w", err)
	}
	return list.Items, nil
}

// Hook is a hook and its handlers. Its JSON form is stable.
type Hook struct {
	// Hook is the hook's name, Version its API version.
	Hook    string `json:"hook"`
	Version string `json:"version"`
	// Blocks reports whether an extension can delay the operation that calls the hook.
	Blocks bool `json:"blocks"`
	// Since is the release that introduced the hook; empty if unknown.
	Since string `json:"since,omitempty"`
	// Advice says what to do if the hook is deprecated.
	Advice  string `json:"advice,omitempty"`
	Summary string `json:"summary,omitempty"`
	// Handlers are the handlers of installed extensions; never nil.
	Handlers []string `json:"handlers"`
}

// List returns the hooks of a catalog with the handlers that installed extensions have for them.
func List(catalog *hook.Catalog, installed []runtimev1.ExtensionConfig) []Hook {
	handlers := map[string][]string{}
	for _, config := range installed {
		for _, h := range config.Status.Handlers {
			name := h.RequestHook.APIVersion + "/" + h.RequestHook.Hook
			handlers[name] = append(handlers[name], h.Name)
		}
	}
	all := []Hook{}
	for _, d := range catalog.All() {
		facts := catalog.Facts(d.ID)
		h := Hook{
			Hook: d.ID.Name, Version: d.ID.APIVersion(), Blocks: d.CanWait, Since: string(facts.Introduced),
			Advice: facts.Advice(), Summary: facts.Summary, Handlers: handlers[d.ID.String()],
		}
		if h.Handlers == nil {
			h.Handlers = []string{}
		}
		all = append(all, h)
	}
	return all
}
