//go:build linux

package admission

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/identity"
	"github.com/capstan-dev/capstan/test/apiserver"
)

// manager is a user with the rights of capstan-manager.
const manager = "capstan-manager"

// server is the API server of all tests.
var server *apiserver.Server

// admin is a client with all rights.
var admin client.Client

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	defer func() {
		if server != nil {
			if err := server.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "admission: stopping the API server:", err)
				code = max(code, 1)
			}
		}
	}()
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, "admission:", err)
		return 1
	}
	return m.Run()
}

func start() error {
	crds, err := apiserver.Capstan()
	if err != nil {
		return err
	}
	core, err := apiserver.Core("clusters", "clusterclasses")
	if err != nil {
		return err
	}
	kubeadm, err := apiserver.Kubeadm()
	if err != nil {
		return err
	}
	server, err = apiserver.Start(apiserver.Options{
		CRDs: slices.Concat(crds, core, kubeadm), Policies: true, Controllers: []string{"clusterrole-aggregation-controller"},
	})
	if err != nil {
		return err
	}
	server.Config.QPS = -1
	if err := infrav1.AddToScheme(scheme.Scheme); err != nil {
		return err
	}
	if admin, err = client.New(server.Config, client.Options{}); err != nil {
		return err
	}
	if err := roles(); err != nil {
		return err
	}
	return admin.Create(context.Background(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: manager},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: manager},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: manager}},
	})
}

// roles installs the ClusterRoles of config/rbac.
func roles() error {
	files, err := filepath.Glob(filepath.Join(apiserver.Root(), "config", "rbac", "*role*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for document := range strings.SplitSeq(string(data), "\n---\n") {
			role := &rbacv1.ClusterRole{}
			if err := yaml.Unmarshal([]byte(document), role); err != nil {
				return fmt.Errorf("reading %s: %w", file, err)
			}
			if role.Kind != "ClusterRole" {
				continue
			}
			if err := admin.Create(context.Background(), role); err != nil {
				return err
			}
		}
	}
	return nil
}

// as returns a client that acts as a user.
func as(t *testing.T, user string) client.Client {
	t.Helper()
	config := rest.CopyConfig(server.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	c, err := client.New(config, client.Options{})
	must(t, err)
	return c
}

// namespace creates a namespace for a test.
func namespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	must(t, admin.Create(t.Context(), ns))
	return ns.Name
}

// bind gives a ClusterRole to a user in a namespace.
func bind(t *testing.T, namespace, role, user string) {
	t.Helper()
	must(t, admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: role + "-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
}

// host creates a CapstanHost with its identity, and returns it with the name of its account.
func host(t *testing.T, namespace, name string) (*infrav1.CapstanHost, string) {
	t.Helper()
	h := &infrav1.CapstanHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: infrav1.CapstanHostSpec{Zone: "a"},
	}
	must(t, admin.Create(t.Context(), h))
	m := as(t, manager)
	for _, object := range identity.Objects(h) {
		must(t, m.Apply(t.Context(), object, identity.FieldOwner, client.ForceOwnership))
	}
	return h, account(namespace, name)
}

// account returns the user name of a host's account.
func account(namespace, host string) string {
	return "system:serviceaccount:" + namespace + ":" + infrav1.IdentityPrefix + host
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused fails the test unless err is a refusal that contains all the words.
func refused(t *testing.T, err error, words ...string) {
	t.Helper()
	if !apierrors.IsForbidden(err) {
		t.Errorf("not refused: %v", err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the refusal does not say %q: %v", word, err)
		}
	}
}
