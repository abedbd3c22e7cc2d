//go:build linux

package enrol

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/agent/enroll"
	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/dock/balancer"
	"github.com/capstan-dev/capstan/internal/enrolment"
	"github.com/capstan-dev/capstan/internal/testcert"
	"github.com/capstan-dev/capstan/local/credential"
	"github.com/capstan-dev/capstan/local/enrol"
	"github.com/capstan-dev/capstan/plane/pki"
	"github.com/capstan-dev/capstan/test/apiserver"
)

// api is the API server of all tests; admin is a client with all rights, and manager one with the rights of a plane's
// manager.
var (
	api            *apiserver.Server
	admin, manager client.Client
	scheme         = runtime.NewScheme()
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	defer func() {
		if api != nil {
			if err := api.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "enrol: stopping the API server:", err)
				code = max(code, 1)
			}
		}
	}()
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, "enrol:", err)
		return 1
	}
	return m.Run()
}

func start() error {
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, infrav1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	crds, err := apiserver.Capstan()
	if err != nil {
		return err
	}
	if api, err = apiserver.Start(apiserver.Options{CRDs: crds, Policies: true}); err != nil {
		return err
	}
	api.Config.QPS = -1
	if admin, err = client.New(api.Config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if err := roles(); err != nil {
		return err
	}
	config, err := api.User(pki.ManagerUser)
	if err != nil {
		return err
	}
	config.QPS = -1
	manager, err = client.New(config, client.Options{Scheme: scheme})
	return err
}

// roles installs the roles of the plane's manager.
func roles() error {
	data, err := os.ReadFile(filepath.Join(apiserver.Root(), "plane", "manifests", "access.yaml"))
	if err != nil {
		return err
	}
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), o); err != nil {
			return err
		}
		if o.GetName() == "capstan-plane-manager" {
			if err := admin.Create(context.Background(), o); err != nil {
				return err
			}
		}
	}
	return nil
}

// world is a namespace of hosts with an enrolment server.
type world struct {
	namespace, url, pin string
	// clock is the clock by which the plane judges hosts that come back.
	clock *clocktesting.FakePassiveClock
}

// newWorld creates a world. Hosts reach the server as if through the dock.
func newWorld(t *testing.T) *world {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "hosts-"}}
	if err := admin.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	leaf, ca := testcert.Server(t, net.IPv4(127, 0, 0, 1))
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	outer, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{namespace: namespace.Name, url: "https://" + outer.Addr().String(), pin: enrolment.Pin(ca.Certificate),
		clock: clocktesting.NewFakePassiveClock(time.Now())}
	hosts := &enrol.Hosts{
		Client: manager,
		Reader: manager,
		Server: api.Config.Host,
		CAData: append(slices.Clone(api.Config.CAData), ca.PEM()...), // in a plane, both are the same authority
		Clock:  clock.RealClock{},
	}
	awaited := *hosts
	awaited.Clock = w.clock
	returns := &enrol.Returns{Hosts: &awaited, Keys: func() ([]any, error) {
		_, public := api.TokenKeys()
		return keyutil.PublicKeysFromFile(public)
	}}
	server := enrol.New(enrol.Options{
		Enroll: hosts.Enroll, Return: returns.Return, Authority: ca.Certificate, Binaries: t.TempDir(), URL: w.url,
		Version: "test",
		Certificate: func() (*tls.Certificate, error) {
			certificate := leaf.TLS()
			return &certificate, nil
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, inner) }()
	relay := balancer.ServeWith(balancer.Options{Announce: true}, outer, inner.Addr().String())
	t.Cleanup(func() {
		relay.Close()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the enrolment server: %v", err)
		}
	})
	return w
}

// credential creates a credential for one hour and one use, after applying change.
func (w *world) credential(t *testing.T, change func(*credential.Limits)) string {
	t.Helper()
	l := credential.Limits{Namespace: w.namespace, Uses: 1, Expires: time.Now().Add(time.Hour)}
	if change != nil {
		change(&l)
	}
	text, _, err := credential.Create(t.Context(), admin, l, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// computer is a computer that enrolls. A number identifies its hardware.
type computer struct {
	dir string
	enroll.Options
}

// newComputer returns a newly installed computer.
func (w *world) newComputer(t *testing.T, hardware int) *computer {
	t.Helper()
	dir := t.TempDir()
	id := filepath.Join(dir, "root/sys/class/dmi/id/product_uuid")
	if err := os.MkdirAll(filepath.Dir(id), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(id, fmt.Appendf(nil, "11111111-2222-3333-4444-%012d\n", hardware), 0o400); err != nil {
		t.Fatal(err)
	}
	return &computer{dir: dir, Options: enroll.Options{
		Ticket: enrolment.Ticket{Server: w.url, CAHash: w.pin},
		ConfigPath: filepath.Join(
			dir,
			"etc/agent.yaml",
		), StateDir: filepath.Join(dir, "state"), Root: filepath.Join(dir, "root"),
		Version: "test", Out: io.Discard,
	}}
}

// enroll enrolls a computer under a name.
func (c *computer) enroll(ctx context.Context, credential, name string) error {
	c.Ticket.Credential, c.Ticket.Host = credential, name
	return enroll.Run(ctx, c.Options)
}

// host returns the host of a name.
func (w *world) host(t *testing.T, name string) *infrav1.CapstanHost {
	t.Helper()
	h := &infrav1.CapstanHost{}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, h); err != nil {
		t.Fatal(err)
	}
	return h
}

// hosts counts the hosts of the namespace.
func (w *world) hosts(t *testing.T) int {
	t.Helper()
	list := &infrav1.CapstanHostList{}
	if err := admin.List(t.Context(), list, client.InNamespace(w.namespace)); err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}
