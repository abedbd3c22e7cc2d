package server

import (
	"fmt"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/openapi"
)

// openAPIRoute makes the document once, because it is the same for every caller.
func openAPIRoute(catalog *hook.Catalog, prefix string) (map[string][]byte, error) {
	if catalog == nil {
		return nil, nil
	}
	document, err := openapi.JSON(catalog, openapi.Options{Title: "Runtime extension", Server: prefix})
	if err != nil {
		return nil, fmt.Errorf("describing the hooks: %w", err)
	}
	return map[string][]byte{prefix + OpenAPIPath: document}, nil
}

// checkSingletons checks that the catalog holds every served hook, and that a hook has only one handler if an extension
// may serve it only once.
func checkSingletons(catalog *hook.Catalog, handlers []Handler) error {
	if catalog == nil {
		return nil
	}
	served := map[hook.ID]string{}
	for i := range handlers {
		h := &handlers[i]
		if h.descriptor == nil {
			continue // reported already
		}
		id := h.descriptor.ID
		if _, known := catalog.Get(id); !known {
			return fmt.Errorf("handler %q: hook %s is not in the catalog of the options", h.name, id)
		}
		if other, twice := served[id]; twice && catalog.Facts(id).Singleton {
			return fmt.Errorf("handlers %q and %q: an extension has at most one handler of hook %s", other, h.name, id)
		}
		served[id] = h.name
	}
	return nil
}
