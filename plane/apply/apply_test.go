//go:build linux

package apply

import (
	"context"
	"fmt"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/plane/manifests"
	"github.com/capstan-dev/capstan/test/apiserver"
)

// TestEnsureReplacesABindingToAnotherRole: an older version may have bound a user to another role, and the role of a
// binding is immutable.
func TestEnsureReplacesABindingToAnotherRole(t *testing.T) {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := New(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := client.New(server.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"older", "newer"} {
		binding := manifests.Object{
			Kind: "ClusterRoleBinding", Name: "hooks", Collection: "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
			JSON: fmt.Appendf(nil,
				`{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "hooks"},
				"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": %q},
				"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]}`, role),
		}
		for _, writes := range []int{1, 0} {
			written, err := c.Ensure(ctx, []manifests.Object{binding})
			if err != nil || written != writes {
				t.Fatalf("role %s: %d written, error %v; want %d", role, written, err, writes)
			}
		}
		got := &rbacv1.ClusterRoleBinding{}
		if err := reader.Get(ctx, client.ObjectKey{Name: "hooks"}, got); err != nil || got.RoleRef.Name != role ||
			len(got.Subjects) != 1 {
			t.Errorf("the binding is to %s with subjects %v, want role %s (%v)", got.RoleRef.Name, got.Subjects, role, err)
		}
	}
}
