package registry

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
)

// maxRemembered bounds for how many namespaces a group remembers which of its handlers match.
const maxRemembered = 1024

// Group is the handlers of one hook in their stable order. It never changes; nil is an empty group.
//
// Callers ask which handlers match before almost every step of every reconcile, nearly always with the same answer. So
// the answer is remembered for each namespace, together with the labels that it was found for.
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

// All gives the handlers. Do not change the slice.
func (g *Group) All() []*Handler {
	if g == nil {
		return nil
	}
	return g.handlers
}

// Names gives the unique names of the handlers. Do not change the slice.
func (g *Group) Names() []string {
	if g == nil {
		return nil
	}
	return g.names
}

// SelectsNamespaces tells whether the labels of a namespace make a difference. If not, they need not be read.
func (g *Group) SelectsNamespaces() bool { return g != nil && g.namespaces }

// InNamespace gives those whose namespaceSelector matches (CL-18). The labels are of the namespace; nobody may change
// them afterwards. An object of the whole cluster is in no namespace, so in none that is selected: its namespace is "".
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

// ForObject gives those whose object selector matches an object with these labels.
func (g *Group) ForObject(of labels.Set) *Group {
	if g == nil || !g.objects {
		return g
	}
	return g.filter(func(e *Extension) bool { return e.Objects.Matches(of) })
}

// filter asks once for each extension; the handlers of one stand together. It gives nil if none is left.
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
