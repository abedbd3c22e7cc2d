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

// Ports are where the parts of a plane listen. Zero chooses a free port, which is kept in the plane's folder and taken
// again at the next start if it is still free, so that nothing that was written with it has to change.
type Ports struct {
	// APIServer listens on Options.Bind, all others on 127.0.0.1.
	APIServer int `json:"apiServer"`
	Etcd      int `json:"etcd"`
	EtcdPeer  int `json:"etcdPeer"`
	Webhook   int `json:"webhook"`
	Extension int `json:"extension"`
}

// DockPorts are the ports of a plane that has a network for itself.
var DockPorts = Ports{APIServer: 6443, Etcd: 2379, EtcdPeer: 2380, Webhook: 9443, Extension: 9444}

// Options say how to run a plane.
type Options struct {
	// Dir is the plane's folder, made when missing. Required.
	Dir string
	// Kube is the path of capstan-kube, the bundle of etcd, kube-apiserver and kube-controller-manager. Required.
	Kube string
	// Bind is the address that the API server listens at; default 127.0.0.1. 0.0.0.0 is for a network that is the dock's
	// own.
	Bind string
	// Hosts are names and addresses by which the API server is reached, besides localhost, 127.0.0.1 and those of the
	// service "kubernetes".
	Hosts []string
	// Ports are where everything listens; zero values choose.
	Ports Ports
	// MetricsAddress is where the manager serves metrics, as host:port. Empty serves none.
	MetricsAddress string
	// Audit is the path of an audit log with the metadata of each request. Empty writes the log that AuditLog names, of
	// what matters for security only.
	Audit string
	// Version is the version of Capstan in clusterctl's inventory; default v0.0.0.
	Version string
	// Contract is the only version of Cluster API's provider contract that Capstan's definitions are labelled with in a
	// new plane, such as v1beta1; empty labels them with all that they serve, of which Cluster API takes the newest.
	Contract string
	// Reached is called when the rewriting of Secrets has reached one of the points that Points lists. For tests, which
	// kill the plane there. May be nil.
	Reached func(point string)
	// Gates are the feature gates of Cluster API that differ from those of [gates.Plane].
	Gates gates.Set
	// Renewed is called when certificates were renewed, for what holds copies of them. May be nil.
	Renewed func(Info) error
	// LeafLifetime is how long new certificates are good; default pki.LeafLifetime. For tests: they are renewed after two
	// thirds of it.
	LeafLifetime time.Duration
	// EtcdQuota is how many bytes etcd's data may take; default 2 GiB.
	EtcdQuota int64
	// StartTimeout bounds the start; default 2 minutes.
	StartTimeout time.Duration

	// Concurrency and ConnectRetry are those of controllers.Options.
	Concurrency  int
	ConnectRetry time.Duration
	// Scheme adds types to the manager's scheme.
	Scheme []func(*runtime.Scheme) error
	// RuntimeClient makes the client by which reconcilers call runtime extensions. Required.
	RuntimeClient func(ctx context.Context, mgr ctrl.Manager, info Info) (runtimeclient.Client, error)
	// Setup adds controllers to the manager. The webhooks of Capstan's provider are there already.
	Setup []controllers.Setup
	// Children returns more processes that live as long as the plane. They are started when the API server serves all
	// definitions. Their Env, Log and Files are filled in when empty. May be nil.
	Children func(Info) []process.Process
	// Seed returns YAML documents with objects that the plane starts with; those without a namespace go into "default".
	// May be nil.
	Seed func(Info) ([][]byte, error)

	// gates are all of them, once complete has been called.
	gates gates.Set
}

// Info is what parts that are added to a plane may want to know about it.
type Info struct {
	// Dir is the plane's folder, Logs the one for logs.
	Dir, Logs string
	// Server is the URL of the API server on 127.0.0.1.
	Server string
	// Ports are those in use.
	Ports Ports
	// PKI has all certificates and the paths of their files.
	PKI *pki.Plane
	// ManagerKubeconfig and ExtensionKubeconfig are paths of kubeconfigs for use where the plane runs.
	ManagerKubeconfig, ExtensionKubeconfig string
}

// complete checks the options and fills in what is left out.
func (o *Options) complete() error {
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("no folder was given"))
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
		errs = append(errs, fmt.Errorf("%q is no address to listen at", o.Bind))
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
