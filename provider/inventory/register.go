package inventory

import (
	"context"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// registerName is the name of the ConfigMap that stores the register. Its keys are hosts, its values their namespaces.
const registerName = "capstan-local-hosts"

// registerNamespace is the namespace of the ConfigMap, in which tenants have no rights.
const registerNamespace = metav1.NamespaceSystem

// Register records which namespace has which number of the budget. The supplier knows hosts only by name, and tenants
// may create CapstanHosts, so only the CapstanHost in the recorded namespace is supplied. A number gets a new namespace
// after its host is gone from the old one and before a host is created in the new one.
type Register struct {
	client client.Client
	reader client.Reader

	mu     sync.Mutex
	owners map[int]string
	// object is the ConfigMap as last read or written; nil if it doesn't exist.
	object *corev1.ConfigMap
}

// OpenRegister reads the register from the API server; reader must not be a cache. If there is no register, as in a
// management plane of an earlier version, OpenRegister derives one from the existing hosts.
func OpenRegister(ctx context.Context, c client.Client, reader client.Reader) (*Register, error) {
	r := &Register{client: c, reader: reader}
	return r, r.load(ctx)
}

// load reads the register.
func (r *Register) load(ctx context.Context) error {
	object := &corev1.ConfigMap{}
	err := r.reader.Get(ctx, client.ObjectKey{Namespace: registerNamespace, Name: registerName}, object)
	owners := map[int]string{}
	switch {
	case apierrors.IsNotFound(err):
		object = nil
		if owners, err = r.found(ctx); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("reading the assignment of local hosts to namespaces: %w", err)
	default:
		for host, namespace := range object.Data {
			if number, ok := parse(host); ok {
				owners[number] = namespace
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owners, r.object = owners, object
	return nil
}

// found derives a register from the existing hosts. If several have the same number, the one in Home counts, else the
// oldest.
func (r *Register) found(ctx context.Context) (map[int]string, error) {
	list := &infrav1.CapstanHostList{}
	if err := r.reader.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing hosts: %w", err)
	}
	owners, since := map[int]string{}, map[int]metav1.Time{}
	for i := range list.Items {
		host := &list.Items[i]
		number, ours := numberOf(host)
		if !ours {
			continue
		}
		before := since[number]
		if _, known := owners[number]; !known || host.Namespace == Home ||
			owners[number] != Home && host.CreationTimestamp.Before(&before) {
			owners[number], since[number] = host.Namespace, host.CreationTimestamp
		}
	}
	return owners, nil
}

// Namespace returns the namespace in which the supplier makes the host, or "" if there is none. It returns Home for
// names that are not of the budget.
func (r *Register) Namespace(host string) string {
	number, ours := parse(host)
	if !ours {
		return Home
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.owners[number]
}

// Owners returns a copy of the register: the namespace of each number.
func (r *Register) Owners() map[int]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.owners)
}

// write replaces the register. If the write fails, it may still have taken effect, so write reads the register again.
func (r *Register) write(ctx context.Context, owners map[int]string) error {
	r.mu.Lock()
	object, same := r.object, r.object != nil && maps.Equal(r.owners, owners)
	r.mu.Unlock()
	if same {
		return nil
	}
	next := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: registerNamespace, Name: registerName}}
	write := func() error { return r.client.Create(ctx, next) }
	if object != nil {
		next = object.DeepCopy()
		write = func() error { return r.client.Update(ctx, next) }
	}
	next.Data = make(map[string]string, len(owners))
	for number, namespace := range owners {
		next.Data[name(number)] = namespace
	}
	if err := write(); err != nil {
		if again := r.load(ctx); again != nil {
			return fmt.Errorf("storing the assignment of local hosts to namespaces: %w; then %w", err, again)
		}
		return fmt.Errorf("storing the assignment of local hosts to namespaces: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owners, r.object = maps.Clone(owners), next
	return nil
}
