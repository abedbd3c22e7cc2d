package extensionconfig

import (
	"sync"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// reached remembers the client configuration with which each extension was last registered. The zero value is ready.
type reached struct {
	mu     sync.Mutex
	byName map[string]runtimev1.ClientConfig
}

func (r *reached) set(config *runtimev1.ExtensionConfig) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName == nil {
		r.byName = map[string]runtimev1.ClientConfig{}
	}
	r.byName[config.Name] = *config.Spec.ClientConfig.DeepCopy()
}

func (r *reached) of(name string) (runtimev1.ClientConfig, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	client, known := r.byName[name]
	return client, known
}

func (r *reached) drop(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byName, name)
}
