package client

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/runtime/internal/post"
	"github.com/capstan-dev/capstan/runtime/registry"
)

// endpoints keeps one endpoint for each extension, so that connections outlive calls. An extension that is registered
// again with the same client configuration keeps its connections.
type endpoints struct {
	options transportOptions

	mu   sync.Mutex
	kept map[string]keptEndpoint // by name of the ExtensionConfig
}

type keptEndpoint struct {
	extension *registry.Extension // the one that the endpoint was last requested for
	endpoint  *endpoint
}

func newEndpoints(options transportOptions) *endpoints {
	return &endpoints{options: options, kept: map[string]keptEndpoint{}}
}

// of returns the endpoint of an extension. If its configuration can't work, each call fails.
func (e *endpoints) of(extension *registry.Extension) *endpoint {
	e.mu.Lock()
	defer e.mu.Unlock()
	kept, ok := e.kept[extension.Name]
	switch {
	case ok && kept.extension == extension:
		return kept.endpoint
	case ok && reflect.DeepEqual(kept.extension.Client, extension.Client):
		e.kept[extension.Name] = keptEndpoint{extension, kept.endpoint}
		return kept.endpoint
	}
	made, err := newEndpoint(extension.Client, e.options)
	if err != nil {
		// Each call then fails like any other: its failure policy applies, and it is recorded.
		made = &endpoint{
			poster:  broken{fmt.Errorf("ExtensionConfig %q: %w", extension.Name, err)},
			circuit: circuit{longest: e.options.longest},
		}
	}
	if ok {
		kept.endpoint.poster.Retire()
	}
	e.kept[extension.Name] = keptEndpoint{extension, made}
	return made
}

// broken is the poster of a configuration that can't work.
type broken struct{ err error }

// Do implements poster.
func (b broken) Do(context.Context, *post.Call, time.Time, post.Request) (post.Answer, error) {
	return post.Answer{}, b.err
}

// CloseIdle implements poster.
func (broken) CloseIdle() {}

// Retire implements poster.
func (broken) Retire() {}

func (e *endpoints) drop(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if kept, ok := e.kept[name]; ok {
		kept.endpoint.poster.Retire()
		delete(e.kept, name)
	}
}

// answered records that a discovery has found the extension working.
func (e *endpoints) answered(name string) {
	e.mu.Lock()
	kept, ok := e.kept[name]
	e.mu.Unlock()
	if ok {
		kept.endpoint.circuit.leave(time.Now(), works, nil)
	}
}

// states returns the state of each circuit, by name of the ExtensionConfig.
func (e *endpoints) states(now time.Time) map[string]CircuitState {
	e.mu.Lock()
	defer e.mu.Unlock()
	states := make(map[string]CircuitState, len(e.kept))
	for name, kept := range e.kept {
		states[name] = kept.endpoint.circuit.state(now)
	}
	return states
}

func (e *endpoints) closeIdle() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, kept := range e.kept {
		kept.endpoint.poster.CloseIdle()
	}
}
