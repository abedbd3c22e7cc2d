package topology

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/hint"
)

// localHosts returns hosts of the plane in a namespace.
func localHosts(namespace string, from, to int) (hosts []client.Object) {
	for i := from; i <= to; i++ {
		h := &infrav1.CapstanHost{}
		h.Namespace, h.Name, h.Spec.Supplier = namespace, fmt.Sprintf("host-%02d", i), infrav1.SupplierDock
		hosts = append(hosts, h)
	}
	return hosts
}

func shared(name string) client.Object {
	class := &clusterv1.ClusterClass{}
	class.Namespace, class.Name = SharedNamespace, name
	return class
}

// TestFindClass: the Cluster's own namespace takes precedence over the one with the plane's class.
func TestFindClass(t *testing.T) {
	c := server(t, 0, shared("local"), shared("other"))
	for name, r := range map[string]struct {
		request Request
		want    string // of Cluster.spec.topology.classRef
	}{
		"a class of the namespace":         {Request{Namespace: "team", Class: "local"}, "/local"},
		"a class that the plane has":       {Request{Namespace: "team", Class: "other"}, "default/other"},
		"from a namespace without classes": {Request{Namespace: "blue", Class: "local"}, "default/local"},
		"in the plane's own namespace":     {Request{Namespace: "default", Class: "other"}, "/other"},
		"a namespace that is named": {
			Request{Namespace: "team", Class: "local", ClassNamespace: "default"}, "default/local"},
		"a class that does not exist": {Request{Namespace: "team", Class: "none"}, "/none"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := r.request.FindClass(t.Context(), c)
			ref := found.Cluster().Spec.Topology.ClassRef
			if got := ref.Namespace + "/" + ref.Name; err != nil || got != r.want {
				t.Errorf("got %s, %v, want %s", got, err, r.want)
			}
		})
	}
}

// TestClassesThatExist: the hint is never empty.
func TestClassesThatExist(t *testing.T) {
	r := Request{Name: "demo", Namespace: "blue", Class: "none", ControlPlane: 1}
	for name, c := range map[string]struct {
		server client.Client
		want   string
	}{
		"in other namespaces": {server(t, 0, shared("local")), "classes that exist: default/local, team/local"},
		"none":                {withoutClasses(t), "there are no classes at all: make one with capstan kubectl apply"},
	} {
		t.Run(name, func(t *testing.T) {
			err := r.Check(t.Context(), c.server)
			if err == nil || !strings.HasPrefix(hint.Of(err), c.want) {
				t.Errorf("got %v with the hint %q, want %q", err, hint.Of(err), c.want)
			}
		})
	}
}

func withoutClasses(t *testing.T) client.Client {
	c := server(t, 0)
	class := &clusterv1.ClusterClass{}
	class.Namespace, class.Name = "team", "local"
	if err := c.Delete(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCheckCountsTheBudget: local hosts can come from other namespaces, enrolled hosts cannot.
func TestCheckCountsTheBudget(t *testing.T) {
	objects := slices.Concat(localHosts("default", 1, 2), localHosts("green", 3, 3), []client.Object{shared("local")})
	for _, key := range []client.ObjectKey{{Namespace: "default", Name: "rack"}, {Namespace: "own", Name: "rack"}} {
		enrolled := &infrav1.CapstanHost{}
		enrolled.Namespace, enrolled.Name = key.Namespace, key.Name
		objects = append(objects, enrolled)
	}
	ask := func(namespace string, workers int32) Request {
		return Request{Name: "demo", Namespace: namespace, Class: "local", ClassNamespace: "default",
			ControlPlane: 1, Workers: workers}
	}
	for name, c := range map[string]struct {
		request Request
		want    string
	}{
		"all local hosts": {ask("blue", 2), ""},
		"one more than that": {ask("blue", 3),
			"needs 4 hosts and namespace blue can have 3 at most: all 3 local hosts"},
		"with those that enrolled": {ask("default", 3), ""},
		"one more than those and that": {ask("default", 4),
			"default can have 4 at most: 1 of its own and all 3 local ones"},
		"a namespace with hosts of its own has those only": {ask("own", 1),
			"needs 2 hosts and the inventory of namespace own has 1"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.request.Check(t.Context(), server(t, 0, objects...))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestCheckOfATenant: a user who may not list all namespaces sees only their own.
func TestCheckOfATenant(t *testing.T) {
	c := interceptor.NewClient(server(t, 1).(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if len(o) == 0 {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "all"}, "", nil)
			}
			return c.List(ctx, list, o...)
		},
	})
	r := demo
	if err := r.Check(t.Context(), c); err == nil || !strings.Contains(err.Error(), "namespace team has 1") {
		t.Errorf("got %v", err)
	}
	r.Class = "none"
	if err := r.Check(t.Context(), c); err == nil || hint.Of(err) != "classes that exist: local" {
		t.Errorf("got %v with the hint %q", err, hint.Of(err))
	}
}
