package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/extension"
	"github.com/capstan-dev/capstan/internal/process"
	"github.com/capstan-dev/capstan/local"
	"github.com/capstan-dev/capstan/plane"
	"github.com/capstan-dev/capstan/plane/controllers"
	"github.com/capstan-dev/capstan/plane/hooks"
	"github.com/capstan-dev/capstan/provider"
	"github.com/capstan-dev/capstan/provider/inventory"
	"github.com/capstan-dev/capstan/provider/supply"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/templates"
)

// zones are the failure domains that local hosts are spread over.
var zones = []string{"zone-a", "zone-b", "zone-c"}

// Variables that tune the plane for tests and developers; the plane that "up" starts has those of "up". They are no options, for nobody else
// needs them.
const (
	// auditVariable is the path of an audit log of the API server.
	auditVariable = "CAPSTAN_AUDIT_LOG"
	// contractVariable is the only version of Cluster API's contract that the definitions of a new home are labelled with.
	contractVariable = "CAPSTAN_CONTRACT"
)

// planeEnvironment is what the plane gets besides what the dock gives to everybody.
func planeEnvironment() []string {
	env := []string{"GOGC=75"}
	for _, name := range []string{auditVariable, contractVariable} {
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// planeCommand is the management plane process itself. The dock runs it; people use "up".
func (a *app) planeCommand() *cobra.Command {
	var server string
	var hosts int
	cmd := &cobra.Command{
		Use: "plane", Short: "Run the management plane in this process (started by up)", Args: cobra.NoArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.runPlane(cmd.Context(), server, hosts)
		},
	}
	cmd.Flags().StringVar(&server, "server", "", "URL by which the user reaches the API server")
	cmd.Flags().IntVar(&hosts, "hosts", 0, "number of local hosts in the inventory")
	return cmd
}

func (a *app) runPlane(ctx context.Context, server string, hosts int) error {
	bundles := a.bin.Bundles()
	if len(bundles) == 0 {
		return hint("run: make build", "no Kubernetes bundle is built in %s/bundles", a.bin)
	}
	kube, err := a.bin.Kube(bundles[0])
	if err != nil {
		return err
	}
	extensionBinary, err := a.bin.Path("capstan-extension")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(a.home.Plane(), 0o700); err != nil {
		return fmt.Errorf("making the plane's directory: %w", err)
	}
	journal, err := record.Open(a.home.Hooks(), 0)
	if err != nil {
		return err
	}
	docked := a.dock()
	defer docked.Close()
	ports := plane.DockPorts
	ports.APIServer = local.PlanePort
	err = plane.Run(ctx, plane.Options{
		Dir:      a.home.Plane(),
		Kube:     kube,
		Bind:     "0.0.0.0", // of the dock's own network: agents come from the hosts
		Hosts:    []string{dock.Gateway},
		Ports:    ports,
		Audit:    os.Getenv(auditVariable),
		Version:  clusterctl.Version(version),
		Contract: os.Getenv(contractVariable),
		Scheme:   []func(*runtime.Scheme) error{infrav1.AddToScheme},
		RuntimeClient: func(_ context.Context, mgr ctrl.Manager, info plane.Info) (runtimeclient.Client, error) {
			known, err := record.Read(a.home.Hooks())
			if err != nil {
				return nil, err
			}
			return hooks.NewClient(mgr, hooks.ClientOptions{
				Certificate: info.PKI.RuntimeClient, Journal: journal, Known: known, MaxRetryAfter: hookRetry,
			})
		},
		Setup: []controllers.Setup{func(ctx context.Context, mgr ctrl.Manager, _ controllers.Deps) error {
			return a.setupProvider(ctx, mgr, docked, hosts)
		}},
		Children: func(info plane.Info) []process.Process {
			return []process.Process{extensionProcess(extensionBinary, info, "--bundle", kube, "--backups", a.home.Backups())}
		},
		Seed: func(info plane.Info) ([][]byte, error) { return a.seed(info, server) },
	})
	return errors.Join(err, journal.Close())
}

// seed gives the objects that a plane starts with, and the user the way in: the keys exist by now.
func (a *app) seed(info plane.Info, server string) ([][]byte, error) {
	config, err := yaml.Marshal(extension.Config(fmt.Sprintf("https://127.0.0.1:%d", info.Ports.Extension), info.PKI.CA.Cert))
	if err != nil {
		return nil, fmt.Errorf("encoding the extension's configuration: %w", err)
	}
	kubeconfig, err := plane.UserKubeconfig(info.Dir, server)
	if err != nil {
		return nil, err
	}
	if err := writeSecret(a.home.Kubeconfig(), kubeconfig); err != nil {
		return nil, fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return [][]byte{templates.Local, config}, nil
}

// extensionProcess is our runtime extension, with an identity of its own; it answers to the manager only.
func extensionProcess(binary string, info plane.Info, more ...string) process.Process {
	return process.Process{
		Name: "extension",
		Path: binary,
		Args: append([]string{
			"capstan-extension", "--kubeconfig", info.ExtensionKubeconfig,
			"--listen", fmt.Sprintf("127.0.0.1:%d", info.Ports.Extension),
			"--cert-file", info.PKI.ExtensionServer.CertFile, "--key-file", info.PKI.ExtensionServer.KeyFile,
			"--client-ca-file", info.PKI.CA.CertFile,
		}, more...),
	}
}

// setupProvider adds our controllers, with the dock as the supplier of hosts and balancers.
func (a *app) setupProvider(ctx context.Context, mgr ctrl.Manager, docked *dock.Client, hosts int) error {
	ca := mgr.GetConfig().CAData
	if err := provider.Setup(ctx, mgr, provider.Options{
		Balancer:    localBalancer{docked},
		Supplier:    localSupplier{docked, a.bin},
		AgentServer: supply.AgentServer{URL: agentServer(), CAData: ca},
	}); err != nil {
		return err
	}
	return mgr.Add(registerHosts{mgr, a.namespace, hosts})
}

// registerHosts keeps the inventory at its size, once after the start.
type registerHosts struct {
	mgr       ctrl.Manager
	namespace string
	hosts     int
}

func (r registerHosts) Start(ctx context.Context) error {
	// A call that fails must not end the manager: it is tried again, with a backoff, until it succeeds.
	for pause := 500 * time.Millisecond; ; pause = min(2*pause, 30*time.Second) {
		err := inventory.Ensure(ctx, r.mgr.GetClient(), r.namespace, r.hosts, zones)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		ctrl.Log.WithName("inventory").Error(err, "The hosts were not registered, trying again", "pause", pause)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}
