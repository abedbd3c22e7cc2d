//go:build linux

package plane

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// restoredPlane returns a client with objects that a backup may contain.
func restoredPlane(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(infrav1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}
	}
	host := func(name, supplier, machine string) *infrav1.CapstanHost {
		h := &infrav1.CapstanHost{ObjectMeta: named(name), Spec: infrav1.CapstanHostSpec{Supplier: supplier}}
		if machine != "" {
			h.Spec.Claim = &infrav1.HostClaim{Machine: machine, MachineUID: "uid-" + machine, ProviderID: "p-" + machine}
		}
		h.Status.Phase, h.Status.Agent = infrav1.HostAvailable, &infrav1.AgentReport{Version: "v1"}
		h.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue}}
		return h
	}
	machine := func(name, providerID string, owned bool) []client.Object {
		m := &infrav1.CapstanMachine{ObjectMeta: named(name)}
		m.Spec.ProviderID = providerID
		if !owned {
			return []client.Object{m}
		}
		owner := &clusterv1.Machine{ObjectMeta: named(name)}
		m.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: owner.UID,
		}}
		return []client.Object{m, owner}
	}
	objects := []client.Object{
		host("free", "", ""), host("used", "", "running"), host("claimed", "", "claimed"), host("local", "dock", ""),
	}
	objects = append(objects, machine("running", "p-running", true)...)
	objects = append(objects, machine("claimed", "", true)...)
	objects = append(objects, machine("waiting", "", true)...)
	objects = append(objects, machine("alone", "", false)...)
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&infrav1.CapstanHost{}).Build()
}

// TestAfterRestore: a restored plane forgets what agents reported, and replaces machines without a host.
func TestAfterRestore(t *testing.T) {
	c, dir := restoredPlane(t), t.TempDir()
	connect := func() (client.Client, error) { return c, nil }
	never := func() (client.Client, error) { return nil, errors.New("called") }
	if err := afterRestore(t.Context(), dir, never); err != nil {
		t.Errorf("afterRestore of a plane that was not restored: %v", err)
	}
	if err := MarkRestored(dir); err != nil {
		t.Fatal(err)
	}
	away := errors.New("the API server is away")
	fails := func() (client.Client, error) { return nil, away }
	if err := afterRestore(t.Context(), dir, fails); !errors.Is(err, away) {
		t.Errorf("afterRestore without an API server: got error %v, want that of connect", err)
	}
	if err := afterRestore(t.Context(), dir, connect); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, restoredFile)); !os.IsNotExist(err) {
		t.Errorf("the mark still exists: %v", err)
	}
	there := func(o client.Object, name string) bool {
		err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, o)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return err == nil
	}
	for name, want := range map[string]bool{"running": true, "claimed": true, "waiting": false} {
		if there(&clusterv1.Machine{}, name) != want {
			t.Errorf("does Machine %s still exist? got %t", name, !want)
		}
	}
	if there(&infrav1.CapstanMachine{}, "alone") {
		t.Error("a CapstanMachine without a Machine and a host was not deleted")
	}
	for name, forgotten := range map[string]bool{"free": true, "used": true, "claimed": true, "local": false} {
		h := &infrav1.CapstanHost{}
		if !there(h, name) || (h.Status.Agent == nil) != forgotten || (len(h.Status.Conditions) == 0) != forgotten ||
			(h.Spec.Claim == nil) != (name == "free" || name == "local") {
			t.Errorf("host %s has the spec %+v and the status %+v", name, h.Spec, h.Status)
		}
	}
}
