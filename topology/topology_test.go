package topology

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/hint"
)

// server returns an API server with the class "local" and this many hosts.
func server(t *testing.T, hosts int, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, infrav1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	class := &clusterv1.ClusterClass{}
	class.Namespace, class.Name = "team", "local"
	objects = append(objects, class)
	for i := range hosts {
		h := &infrav1.CapstanHost{}
		h.Namespace, h.Name, h.Spec.Supplier = "team", "host-"+string(rune('a'+i)), infrav1.SupplierDock
		objects = append(objects, h)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

var demo = Request{Name: "demo", Namespace: "team", Class: "local", Version: "v1.36.0", ControlPlane: 1, Workers: 2}

// stored reads the cluster back.
func stored(t *testing.T, c client.Client) *clusterv1.Cluster {
	t.Helper()
	cluster := &clusterv1.Cluster{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: demo.Namespace, Name: demo.Name}, cluster); err != nil {
		t.Fatal(err)
	}
	return cluster
}

func TestCreate(t *testing.T) {
	c := server(t, 3)
	if err := Create(t.Context(), c, demo); err != nil || Machines(stored(t, c)) != 3 {
		t.Fatalf("got %v and %d machines", err, Machines(stored(t, c)))
	}
	for name, change := range map[string]struct {
		change       func(*Request)
		want, advice string
	}{
		"there is one": {func(*Request) {}, `there is a cluster "demo" already`, "choose another name"},
		"no such class": {
			func(r *Request) { r.Name, r.Class = "next", "other" }, `no ClusterClass "other"`, "classes that exist: local",
		},
		"too few hosts": {
			func(r *Request) { r.Name, r.Workers = "next", 3 },
			"needs 4 hosts and the inventory of namespace team has 3", "--hosts 4",
		},
		"a class elsewhere that does not exist": {
			func(r *Request) { r.Name, r.Class, r.ClassNamespace = "next", "local", "other" },
			`no ClusterClass "local" in namespace other`, "classes that exist: local",
		},
		"what is refused there": {func(r *Request) { r.Name = "Next" }, "does not work", "lower-case"},
	} {
		t.Run(name, func(t *testing.T) {
			r := demo
			change.change(&r)
			err := Create(t.Context(), c, r)
			if err == nil || !strings.Contains(err.Error(), change.want) ||
				!strings.Contains(hint.Of(err), change.advice) {
				t.Errorf("got %v with hint %q", err, hint.Of(err))
			}
		})
	}
}

func TestScale(t *testing.T) {
	c := server(t, 5, demo.Cluster())
	want, err := Scale(t.Context(), c, stored(t, c), Size{Workers: n(4)})
	if err != nil || want.Workers != 4 || want.ControlPlane != 1 || Machines(stored(t, c)) != 5 {
		t.Fatalf("got %+v, %v, and %d machines", want, err, Machines(stored(t, c)))
	}
	_, err = Scale(t.Context(), c, stored(t, c), Size{ControlPlane: n(3)})
	if err == nil || Machines(stored(t, c)) != 5 {
		t.Errorf("got %v, and %d machines", err, Machines(stored(t, c)))
	}
}

func TestUpgrade(t *testing.T) {
	c := server(t, 3, demo.Cluster())
	err := Upgrade(t.Context(), c, stored(t, c), "v1.38.0")
	if got := stored(t, c).Spec.Topology.Version; err == nil || got != "v1.36.0" {
		t.Errorf("got %v and %s", err, got)
	}
	class := &clusterv1.ClusterClass{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: demo.Namespace, Name: demo.Class}, class); err != nil {
		t.Fatal(err)
	}
	class.Spec.Upgrade.External.GenerateUpgradePlanExtension = "upgrade-plan.capstan"
	planned := server(t, 3, demo.Cluster())
	if err := planned.Delete(t.Context(), class.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	err = Upgrade(t.Context(), planned, stored(t, planned), "v1.38.0")
	if err == nil || !strings.Contains(err.Error(), "reading the ClusterClass") {
		t.Errorf("without its ClusterClass: %v", err)
	}
	class.ResourceVersion = ""
	if err := planned.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	err = Upgrade(t.Context(), planned, stored(t, planned), "v1.38.0")
	if got := stored(t, planned).Spec.Topology.Version; err != nil || got != "v1.38.0" {
		t.Errorf("with a ClusterClass that plans upgrades: %v and %s", err, got)
	}
	err = Upgrade(t.Context(), planned, stored(t, planned), "v1.36.3")
	if err == nil || !strings.Contains(err.Error(), "does not go back") {
		t.Errorf("back, with a ClusterClass that plans upgrades: %v", err)
	}
	err = Upgrade(t.Context(), c, stored(t, c), "v1.36.3")
	if got := stored(t, c).Spec.Topology.Version; err != nil || got != "v1.36.3" {
		t.Errorf("got %v and %s", err, got)
	}
	err = Upgrade(t.Context(), c, &clusterv1.Cluster{}, "v1.36.3")
	if err == nil || !strings.Contains(err.Error(), "has no topology") {
		t.Errorf("got %v", err)
	}
}
