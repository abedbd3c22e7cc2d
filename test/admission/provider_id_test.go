//go:build linux

package admission

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// writer is a role that lets a tenant write CapstanMachines, but not set their providerID.
const writer = "capstan-core"

// TestProviderIDs: only those who may assign a providerID can set the providerID of a machine. Everybody else may write
// the other fields.
func TestProviderIDs(t *testing.T) {
	ns, other := namespace(t), namespace(t)
	bind(t, ns, writer, "tenant")
	bind(t, ns, writer, "mover")
	bind(t, ns, "capstan-mover", "mover")
	bind(t, ns, writer, "stranger")
	bind(t, other, "capstan-mover", "stranger")
	machine := func(id string) *infrav1.CapstanMachine {
		return &infrav1.CapstanMachine{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "m-"}, Spec: infrav1.CapstanMachineSpec{ProviderID: id},
		}
	}
	const id = "capstan://x/host-01/12345678"
	for name, c := range map[string]struct {
		user string
		may  bool
	}{
		"a tenant":                               {user: "tenant"},
		"a mover of another namespace":           {user: "stranger"},
		"a host's account":                       {user: account(ns, "host-01")},
		"a mover of this namespace":              {user: "mover", may: true},
		"the manager":                            {user: manager, may: true},
		"the management cluster's administrator": {may: true},
	} {
		t.Run(name, func(t *testing.T) {
			who := admin
			if c.user != "" {
				who = as(t, c.user)
			}
			created := who.Create(t.Context(), machine(id))
			m := machine("")
			must(t, admin.Create(t.Context(), m))
			changed := who.Patch(t.Context(), m.DeepCopy(),
				client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"providerID":"`+id+`"}}`)))
			if !c.may {
				refused(t, created)
				refused(t, changed)
				return
			}
			must(t, created)
			must(t, changed)
		})
	}
	tenant := as(t, "tenant")
	refused(t, tenant.Create(t.Context(), machine(id)), "tenant", ns, "leave it out", "capstan-mover")

	t.Run("a tenant makes, changes and deletes machines", func(t *testing.T) {
		m := machine("")
		must(t, tenant.Create(t.Context(), m))
		m.Labels = map[string]string{"a": "b"}
		must(t, tenant.Update(t.Context(), m))
		m.Spec.ProviderID = id
		must(t, as(t, manager).Update(t.Context(), m))
		m.Labels = map[string]string{"a": "c"}
		must(t, tenant.Update(t.Context(), m)) // with the providerID that the controller has set
		must(t, tenant.Delete(t.Context(), m))
	})
}
