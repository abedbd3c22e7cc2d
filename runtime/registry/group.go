package registry

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
)

// maxRemembered bounds the number of namespaces for which a group remembers the matching handlers.
const maxRemembered = 1024

// Group holds the handlers of one hook in a stable order. It is immutable; nil is an empty group.
//
// Callers ask which handlers match before almost every step of every reconcile, and nearly always get the same answer.
// So the group remembers the answer for each namespace, together with the labels it was computed from.
type Group struct {
	handlers   []*Handler
	names      []string
	namespaces bool // some extension selects namespaces
	objects    bool // some extension selects objects

	mu         sync.Mutex
	remembered map[string]remembered // by name of the namespace
}

type remembered struct {
	labels   labels.Set
	matching *Group
}

func (g *Group) add(h *Handler) {
	g.handlers = append(g.handlers, h)
	g.names = append(g.names, h.Name)
	g.namespaces = g.namespaces || !h.Extension.Namespaces.Empty()
	g.objects = g.objects || !h.Extension.Objects.Empty()
}

// All returns the handlers. Do not change the slice.
func (g *Group) All() []*Handler {
	if g == nil {
		return nil
	}
	return g.handlers
}

// Names returns the unique names of the handlers. Do not change the slice.
func (g *Group) Names() []string {
	if g == nil {
		return nil
	}
	return g.names
}

// SelectsNamespaces reports whether the labels of a namespace matter. If not, they need not be read.
func (g *Group) SelectsNamespaces() bool { return g != nil && g.namespaces }

// InNamespace returns the handlers whose namespaceSelector matches the namespace's labels (CL-18). The labels must not
// change afterwards. For a cluster-scoped object pass the namespace "": only extensions that select all namespaces
// match it.
func (g *Group) InNamespace(namespace string, of labels.Set) *Group {
	if !g.SelectsNamespaces() {
		return g
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if r, ok := g.remembered[namespace]; ok && maps.Equal(r.labels, of) {
		return r.matching
	}
	matching := g.filter(func(e *Extension) bool {
		return e.Namespaces.Empty() || namespace != "" && e.Namespaces.Matches(of)
	})
	if g.remembered == nil || len(g.remembered) >= maxRemembered {
		g.remembered = map[string]remembered{}
	}
	g.remembered[namespace] = remembered{labels: maps.Clone(of), matching: matching}
	return matching
}

// ForObject returns the handlers whose object selector matches an object with these labels.
func (g *Group) ForObject(of labels.Set) *Group {
	if g == nil || !g.objects {
		return g
	}
	return g.filter(func(e *Extension) bool { return e.Objects.Matches(of) })
}

// filter calls the function keep only once for each extension, because an extension's handlers are adjacent. It returns
// nil if no handler is left.
func (g *Group) filter(keep func(*Extension) bool) *Group {
	var kept *Group
	var last *Extension
	keepLast := false
	for _, h := range g.handlers {
		if h.Extension != last {
			last, keepLast = h.Extension, keep(h.Extension)
		}
		if !keepLast {
			continue
		}
		if kept == nil {
			kept = &Group{}
		}
		kept.add(h)
	}
	return kept
}
