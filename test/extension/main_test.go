package extension

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capstan-dev/capstan/extension"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/test/apiserver"
)

var (
	// server is both the management cluster and the workload cluster.
	server *apiserver.Server
	// admin is a client with all rights.
	admin client.Client
	// own is a client configuration with only the extension's rights.
	own *rest.Config
)

const user = "capstan-extension"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	err := start()
	defer func() {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the API server:", err)
			code = 1
		}
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func start() error {
	log.SetLogger(logr.Discard())
	core, err := apiserver.Core()
	if err != nil {
		return err
	}
	ours, err := apiserver.Capstan()
	if err != nil {
		return err
	}
	if server, err = apiserver.Start(apiserver.Options{CRDs: append(core, ours...)}); err != nil {
		return err
	}
	scheme, err := extension.Scheme()
	if err != nil {
		return err
	}
	if err := rbacv1.AddToScheme(scheme); err != nil {
		return err
	}
	if admin, err = client.New(server.Config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if own, err = server.User(user); err != nil {
		return err
	}
	own.Timeout = 10 * time.Second
	ctx, cancel := contextFor(time.Minute)
	defer cancel()
	if err := admin.Create(ctx, extension.ClusterRole()); err != nil {
		return err
	}
	return admin.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: extension.ClusterRole().Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
}

// serve runs the extension with its own rights, over TLS.
func serve(t *testing.T, settings map[string]string) *hooktest.Extension {
	t.Helper()
	scheme, err := extension.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(own, client.Options{Scheme: scheme, Mapper: extension.Mapper()})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := extension.New(extension.Options{Reader: c, Events: c, Patience: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return hooktest.StartHandler(t, handler, hooktest.Settings(settings))
}
