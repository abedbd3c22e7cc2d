//go:build linux

package plane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/internal/gates"
	"github.com/capstan-dev/capstan/internal/process"
	"github.com/capstan-dev/capstan/plane/controllers"
	"github.com/capstan-dev/capstan/plane/pki"
)

// Ports are the ports of a plane's parts. Zero chooses a free port. The plane saves a chosen port in its directory. If
// the port is still free at the next start, the plane uses it again, so that nothing that refers to the port has to
// change.
type Ports struct {
	// APIServer listens on Options.Bind, all others on 127.0.0.1.
	APIServer int `json:"apiServer"`
	Etcd      int `json:"etcd"`
	EtcdPeer  int `json:"etcdPeer"`
	Webhook   int `json:"webhook"`
	Extension int `json:"extension"`
}

// DockPorts are the ports of a plane that has its own network.
var DockPorts = Ports{APIServer: 6443, Etcd: 2379, EtcdPeer: 2380, Webhook: 9443, Extension: 9444}

// Options say how to run a plane.
type Options struct {
	// Dir is the plane's directory, which is created if missing. Required.
	Dir string
	// Kube is the path of capstan-kube, the bundle of etcd, kube-apiserver and kube-controller-manager. Required.
	Kube string
	// Bind is the address that the API server listens on; default 127.0.0.1. Use 0.0.0.0 only in the dock's own
	// network.
	Bind string
	// Hosts are names and addresses at which clients reach the API server, in addition to localhost, 127.0.0.1 and
	// those of the service "kubernetes".
	Hosts []string
	// Ports are the ports to listen on; zero values choose free ones.
	Ports Ports
	// MetricsAddress is where the manager serves metrics, as host:port. Empty: nowhere.
	MetricsAddress string
	// Audit is the path of an audit log with the metadata of each request. If empty, the plane logs only security-relevant
	// requests, in audit/audit.log in its directory.
	Audit string
	// Version is the Capstan version in clusterctl's inventory; default v0.0.0.
	Version string
	// Contract restricts the labels on Capstan's definitions in a new plane to this version of Cluster API's provider
	// contract, such as v1beta1. If empty, the labels name all versions that the definitions serve, and Cluster API uses
	// the newest.
	Contract string
	// Reached is called when the rewriting of Secrets reaches one of the Points. For tests, which kill the plane there.
	// May be nil.
	Reached func(point string)
	// Gates are the feature gates of Cluster API that differ from [gates.Plane].
	Gates gates.Set
	// Renewed is called after certificates were renewed, so that copies of them can be updated. May be nil.
	Renewed func(Info) error
	// LeafLifetime is the lifetime of new certificates, which are renewed after two thirds of it; default
	// pki.LeafLifetime. For tests.
	LeafLifetime time.Duration
	// EtcdQuota is the maximum size of etcd's data, in bytes; default 2 GiB.
	EtcdQuota int64
	// StartTimeout bounds the start; default 2 minutes.
	StartTimeout time.Duration

	// Concurrency and ConnectRetry have the same meaning as in controllers.Options.
	Concurrency  int
	ConnectRetry time.Duration
	// Scheme adds types to the manager's scheme.
	Scheme []func(*runtime.Scheme) error
	// RuntimeClient creates the client with which reconcilers call runtime extensions. Required.
	RuntimeClient func(ctx context.Context, mgr ctrl.Manager, info Info) (runtimeclient.Client, error)
	// Setup adds controllers to the manager, which already has the webhooks of Capstan's provider.
	Setup []controllers.Setup
	// Children returns additional processes that live as long as the plane. They start when the API server serves all
	// definitions. The plane fills in Env, Log and Files if they are empty. May be nil.
	Children func(Info) []process.Process
	// Seed returns YAML documents with objects that the plane starts with; objects without a namespace go into
	// "default". May be nil.
	Seed func(Info) ([][]byte, error)

	// gates are all feature gates, set by complete.
	gates gates.Set
}

// Info describes the plane to parts that the caller adds.
type Info struct {
	// Dir is the plane's directory, Logs its directory for logs.
	Dir, Logs string
	// Server is the URL of the API server on 127.0.0.1.
	Server string
	// Ports are the ports in use.
	Ports Ports
	// PKI holds all certificates and the paths of their files.
	PKI *pki.Plane
	// ManagerKubeconfig and ExtensionKubeconfig are paths of kubeconfigs for use where the plane runs.
	ManagerKubeconfig, ExtensionKubeconfig string
}

// complete checks the options and fills in defaults.
func (o *Options) complete() error {
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("no directory was given"))
	} else if abs, err := filepath.Abs(o.Dir); err != nil {
		errs = append(errs, err)
	} else {
		o.Dir = abs
	}
	if info, err := os.Stat(o.Kube); err != nil {
		errs = append(errs, fmt.Errorf("capstan-kube: %w", err))
	} else if info.IsDir() || info.Mode()&0o111 == 0 {
		errs = append(errs, fmt.Errorf("capstan-kube: %s is not executable", o.Kube))
	}
	if o.Bind == "" {
		o.Bind = "127.0.0.1"
	}
	if net.ParseIP(o.Bind) == nil {
		errs = append(errs, fmt.Errorf("%q is not an address to listen on", o.Bind))
	}
	if o.Reached == nil {
		o.Reached = func(string) {}
	}
	if o.EtcdQuota <= 0 {
		o.EtcdQuota = 2 << 30
	}
	var err error
	if o.gates, err = gates.Plane().With(o.Gates); err != nil {
		errs = append(errs, err)
	}
	if o.RuntimeClient == nil {
		errs = append(errs, errors.New("no runtime client was given"))
	}
	if o.Version == "" {
		o.Version = "v0.0.0"
	}
	if o.StartTimeout <= 0 {
		o.StartTimeout = 2 * time.Minute
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("starting the plane: %w", err)
	}
	return nil
}

// loopback returns the address of a port on this machine.
func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
