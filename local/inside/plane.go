// Package inside is the part of a local management plane that runs inside the dock, as the process "capstan plane". It
// connects the embedded plane with the dock, which supplies hosts and balancers. Package local starts that process but
// does not import this package, so a program that starts a plane contains none of its controllers.
package inside

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	"sigs.k8s.io/cluster-api/feature"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/extension"
	"github.com/capstan-dev/capstan/internal/atomicfile"
	"github.com/capstan-dev/capstan/internal/environ"
	"github.com/capstan-dev/capstan/internal/gates"
	"github.com/capstan-dev/capstan/internal/home"
	"github.com/capstan-dev/capstan/internal/kubeconfig"
	"github.com/capstan-dev/capstan/internal/process"
	"github.com/capstan-dev/capstan/local"
	"github.com/capstan-dev/capstan/plane"
	"github.com/capstan-dev/capstan/plane/controllers"
	"github.com/capstan-dev/capstan/plane/hooks"
	"github.com/capstan-dev/capstan/plane/providers"
	"github.com/capstan-dev/capstan/provider"
	"github.com/capstan-dev/capstan/provider/inventory"
	"github.com/capstan-dev/capstan/provider/supply"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/templates"
)

// Options configure a plane inside the dock.
type Options struct {
	// Place says where the plane is, with absolute paths. Both directories are required.
	local.Place
	// Server is the URL at which the user reaches the API server from outside the dock. Required.
	Server string
	// Listen is where other computers reach the plane; the dock forwards their connections.
	Listen local.Listen
	// Bundles says how owned hosts get the programs of a node.
	Bundles local.Bundles
	// Hosts is the budget: the number of local hosts that namespaces share.
	Hosts int
	// Version is the Capstan version in clusterctl's inventory; default v0.0.0.
	Version string
	// Gates are the Cluster API feature gates that differ from gates.Plane.
	Gates gates.Set
	// Audit and Contract have the same meaning as in plane.Options.
	Audit, Contract string
}

// hookRetry bounds the wait between calls of a hook that blocks: on one machine another call is cheap, and a host may
// become free at any moment.
const hookRetry = 5 * time.Second

// server is one run of the plane.
type server struct {
	Options
	home home.Dir
	bin  home.Binaries
	// kube and extension are paths of binaries.
	kube, extension string
	// gates are all feature gates.
	gates gates.Set
}

// newServer checks the options and finds the binaries.
func newServer(o Options) (*server, error) {
	if !filepath.IsAbs(o.Home) || !filepath.IsAbs(o.Binaries) {
		return nil, fmt.Errorf("running the plane: home directory %q and directory of binaries %q must be absolute paths",
			o.Home, o.Binaries)
	}
	s := &server{Options: o, home: home.Dir(o.Home), bin: home.Binaries(o.Binaries)}
	var err error
	if s.gates, err = gates.Plane().With(o.Gates); err != nil {
		return nil, err
	}
	version, err := local.NewestBundle(o.Binaries)
	if err != nil {
		return nil, err
	}
	if s.kube, err = s.bin.Kube(version); err != nil {
		return nil, err
	}
	s.extension, err = s.bin.Path("capstan-extension")
	return s, err
}

// Run runs the plane of a home directory until ctx ends. It works only inside a dock, and only once per process.
func Run(ctx context.Context, o Options) error {
	s, err := newServer(o)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.home.Plane(), 0o700); err != nil {
		return fmt.Errorf("making the plane's directory: %w", err)
	}
	if s.Listen.Everybody() {
		if err := wayOut(ctx, s.home); err != nil {
			return err
		}
	}
	journal, err := record.Open(s.home.Hooks(), 0)
	if err != nil {
		return err
	}
	docked := dock.Connect(string(s.home))
	defer docked.Close()
	return errors.Join(plane.Run(ctx, s.plane(docked, journal)), journal.Close())
}

// plane returns the options of the embedded plane.
func (s *server) plane(docked *dock.Client, journal *record.Journal) plane.Options {
	ports := plane.DockPorts
	ports.APIServer = local.PlanePort
	return plane.Options{
		Dir:            s.home.Plane(),
		Kube:           s.kube,
		MetricsAddress: fmt.Sprintf("127.0.0.1:%d", local.MetricsPort),
		Bind:           "0.0.0.0", // within the dock's own network, where agents connect from the hosts
		Hosts:          append([]string{dock.Gateway}, s.Listen.CertificateHosts()...),
		Ports:          ports,
		Audit:          s.Audit,
		Version:        s.Version,
		Contract:       s.Contract,
		Gates:          s.Gates,
		Scheme:         []func(*runtime.Scheme) error{infrav1.AddToScheme},
		RuntimeClient: func(_ context.Context, mgr ctrl.Manager, info plane.Info) (runtimeclient.Client, error) {
			known, err := record.Read(s.home.Hooks())
			if err != nil {
				return nil, err
			}
			return hooks.NewClient(mgr, hooks.ClientOptions{
				Certificate: info.PKI.RuntimeClient, Journal: journal, Known: known, MaxRetryAfter: hookRetry,
				Dial: providers.ServiceDialer(mgr.GetAPIReader()),
			})
		},
		Setup: []controllers.Setup{func(ctx context.Context, mgr ctrl.Manager, _ controllers.Deps) error {
			return errors.Join(s.addProvider(ctx, mgr, docked), s.addEnrolment(mgr))
		}},
		Children: func(info plane.Info) []process.Process {
			if !s.gates.On(feature.RuntimeSDK) {
				return nil // nothing would call the extension
			}
			return []process.Process{extensionProcess(s.extension, info, "--bundle", s.kube, "--backups", s.home.Backups())}
		},
		Seed:    s.seed,
		Renewed: s.writeKubeconfig,
	}
}

// seed returns the objects that a plane starts with. It also writes the user's kubeconfig, because the keys exist by
// now. It leaves out objects whose feature gate is off, because the API server would reject them.
func (s *server) seed(info plane.Info) ([][]byte, error) {
	if err := s.writeKubeconfig(info); err != nil {
		return nil, err
	}
	about, err := clusterInfo(agentServer(), info.PKI.CA.Cert)
	if err != nil {
		return nil, err
	}
	documents := [][]byte{about}
	if s.gates.On(feature.ClusterTopology) {
		documents = append(documents, templates.Local)
		if s.Listen.Everybody() {
			documents = append(documents, templates.Owned)
		}
	}
	if !s.gates.On(feature.RuntimeSDK) {
		return documents, nil
	}
	config, err := yaml.Marshal(extension.Config(fmt.Sprintf("https://127.0.0.1:%d", info.Ports.Extension),
		info.PKI.CA.Cert))
	if err != nil {
		return nil, fmt.Errorf("encoding the extension's configuration: %w", err)
	}
	return append(documents, config), nil
}

// writeKubeconfig writes the user's kubeconfig, which contains a copy of a certificate.
func (s *server) writeKubeconfig(info plane.Info) error {
	kubeconfig, err := plane.UserKubeconfig(info.Dir, s.Server)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(s.home.Kubeconfig(), kubeconfig, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}

// extensionProcess is our runtime extension. It has its own identity and serves only the manager. It reaches clusters
// outside of the dock as this process does, for example to back up etcd before an upgrade.
func extensionProcess(binary string, info plane.Info, more ...string) process.Process {
	return process.Process{
		Name: "extension",
		Path: binary,
		Env:  environ.Network(),
		Args: append([]string{
			"capstan-extension", "--kubeconfig", info.ExtensionKubeconfig,
			"--listen", fmt.Sprintf("127.0.0.1:%d", info.Ports.Extension),
			"--cert-file", info.PKI.ExtensionServer.CertFile, "--key-file", info.PKI.ExtensionServer.KeyFile,
			"--client-ca-file", info.PKI.CA.CertFile,
		}, more...),
	}
}

// addProvider adds our controllers, with the dock as the supplier of hosts and balancers.
func (s *server) addProvider(ctx context.Context, mgr ctrl.Manager, docked *dock.Client) error {
	// The host controller must know from the start which namespace has which host.
	register, err := inventory.OpenRegister(ctx, mgr.GetClient(), mgr.GetAPIReader())
	if err != nil {
		return err
	}
	hosts := supplier{docked, s.bin.Bundles}
	registration, err := newRegistration(mgr, register, hosts, s.Hosts)
	if err != nil {
		return err
	}
	if err := provider.Setup(ctx, mgr, provider.Options{
		Kubeconfig:      kubeconfig.Client,
		Balancer:        balancer{docked},
		Supplier:        hosts,
		SupplyNamespace: register.Namespace,
		PriorityQueue:   s.gates.On(feature.PriorityQueue),
		Shortage:        registration.keeper.Shortage,
		Proof:           infrav1.ProofCompare,
		Metrics:         metrics.Registry,
		Bundles:         s.Bundles.Policy,
		AgentServer:     supply.AgentServer{URL: agentServer(), CAData: mgr.GetConfig().CAData},
	}); err != nil {
		return err
	}
	return registration.setup(mgr)
}
