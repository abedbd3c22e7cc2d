//go:build linux

// Package plane is the embedded management plane: etcd, kube-apiserver and kube-controller-manager as child processes,
// and all controllers and webhooks of Cluster API and Capstan in this process.
//
// [Run] starts it and blocks. All persistent state is in one directory:
//
//	pki/                     keys and certificates, created once
//	etcd/                    the data; Secrets in it are encrypted: package seal
//	encryption/              the key that encrypts them
//	audit/                   who read or changed hosts and Secrets, bounded
//	logs/                    output of the child processes, bounded
//	providers/               directories of providers that run as processes: package providers
//	provider-binaries        which programs may run as providers
//	manager.kubeconfig       for use where the plane runs; so are extension.kubeconfig and controller-manager.kubeconfig
//	ports.json               the ports in use
//	status.json, ready.json  the state of the start: package progress
//	lock                     held while the plane or a child of it lives
//
// Each part starts as soon as the parts that it needs are ready; the parts stop in the opposite order. The plane
// restarts a child that dies, and the manager keeps running meanwhile. If the plane is killed, its children die with
// it.
package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/internal/process"
	"github.com/capstan-dev/capstan/plane/apply"
	"github.com/capstan-dev/capstan/plane/controllers"
	"github.com/capstan-dev/capstan/plane/manifests"
	"github.com/capstan-dev/capstan/plane/pki"
	"github.com/capstan-dev/capstan/plane/progress"
	"github.com/capstan-dev/capstan/plane/providers"
)

// plane is one run of a plane.
type plane struct {
	Info
	opts     Options
	progress *progress.Writer
	lock     *os.File
	stack    *stack
	// encryption is the path of the API server's encryption configuration.
	encryption string
}

// used records that this process has run a plane.
var used atomic.Bool

// Run starts a plane, blocks until ctx ends, and stops the plane. It returns nil if the plane worked until then. Run
// works only once per process, because Cluster API keeps feature gates and metrics in global variables.
func Run(ctx context.Context, opts Options) (err error) {
	if err := opts.complete(); err != nil {
		return err
	}
	if used.Swap(true) {
		return errors.New("starting the plane: this process has already run one; start a new process")
	}
	ctrl.SetLogger(klog.Background())
	rereadSoon(opts.LeafLifetime)
	p := &plane{Info: Info{Dir: opts.Dir, Logs: filepath.Join(opts.Dir, logsDir)}, opts: opts, stack: newStack()}
	if err := os.MkdirAll(p.Logs, 0o700); err != nil {
		return fmt.Errorf("creating the directory of the plane: %w", err)
	}
	if p.lock, err = lock(ctx, p.Dir, lockWait); err != nil {
		return err
	}
	defer p.lock.Close()
	if p.progress, err = progress.Begin(p.Dir); err != nil {
		return err
	}
	defer func() { p.progress.End(err) }()
	defer func() { err = errors.Join(err, p.stack.end()) }()

	if err := p.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // stopped while starting, as requested
		}
		return fmt.Errorf("starting the plane: %w", err)
	}
	if err := p.progress.Ready(); err != nil {
		return err
	}
	klog.Background().Info("The plane is ready", "server", p.Server)
	select {
	case <-ctx.Done():
		return nil
	case err := <-p.stack.failed:
		return err
	}
}

// start starts everything and returns once all of it works.
func (p *plane) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.opts.StartTimeout,
		fmt.Errorf("it was not ready within %s; see the logs in %s", p.opts.StartTimeout, p.Logs))
	defer cancel()
	if err := p.keys(); err != nil {
		return err
	}
	if err := p.secrets(ctx); err != nil {
		return err
	}
	definitions, err := p.definitions()
	if err != nil {
		return err
	}
	// Start both at once: the API server takes longer to reach the point where it calls etcd than etcd takes to answer.
	etcd := p.keep(progress.PhaseEtcd, p.etcd())
	apiServer := p.keep(progress.PhaseAPIServer, p.apiServer())
	if err := p.wait(ctx, etcd, apiServer); err != nil {
		return err
	}
	p.stack.start("the upkeep of etcd", p.upkeep)
	if err := p.define(ctx, definitions); err != nil {
		return err
	}
	if err := afterRestore(ctx, p.Dir, func() (client.Client, error) {
		return connectTo(restConfig(p.Info, p.PKI.Admin))
	}); err != nil {
		return err
	}
	kcm := p.keep(progress.PhaseControllerManager, p.controllerManager())
	manager, err := p.manager(ctx)
	if err != nil {
		return err
	}
	p.stack.start("the renewal of certificates", p.renew)
	waits := []<-chan struct{}{kcm, manager.ready}
	for _, child := range p.children() {
		waits = append(waits, p.keep(child.Name, child))
	}
	if err := p.wait(ctx, waits...); err != nil {
		return err
	}
	if err := p.reportEmbedded(ctx, definitions, true); err != nil {
		return err
	}
	return p.seed(ctx, manager)
}

// keys creates certificates and kubeconfigs and chooses ports.
func (p *plane) keys() (err error) {
	end := p.progress.Phase(progress.PhaseKeys)
	if p.PKI, err = pki.Ensure(p.directory(), p.opts.Hosts); err != nil {
		return err
	}
	if p.Ports, err = choosePorts(p.Dir, p.opts.Bind, p.opts.Ports); err != nil {
		return err
	}
	p.Server = "https://" + loopback(p.Ports.APIServer)
	p.ManagerKubeconfig, p.ExtensionKubeconfig = filepath.Join(p.Dir, managerKubeconfig),
		filepath.Join(p.Dir, extensionKubeconfig)
	if err := errors.Join(writeKubeconfigs(p.Info), p.writeAuditPolicy()); err != nil {
		return err
	}
	version, err := manifests.Version()
	if err != nil {
		return err
	}
	end("")
	return p.progress.Update(func(s *progress.State) {
		s.Server, s.ClusterAPI, s.FeatureGates = p.Server, version, p.opts.gates
	})
}

// definitions are all objects that turn an API server into a management cluster.
type definitions struct {
	// crds come first, because inventory needs them.
	crds, others, inventory []manifests.Object
	// embedded are the Deployments of built-in providers, a part of the inventory.
	embedded []manifests.Object
}

func (p *plane) definitions() (d definitions, err error) {
	webhooks := manifests.Webhooks{Address: loopback(p.Ports.Webhook), CABundle: p.PKI.CA.Cert}
	if d.crds, err = manifests.CRDs(webhooks, p.opts.Contract); err != nil {
		return d, err
	}
	access, err := manifests.Access()
	if err != nil {
		return d, err
	}
	configurations, err := manifests.WebhookConfigurations(webhooks)
	if err != nil {
		return d, err
	}
	policies, err := manifests.AdmissionPolicies()
	if err != nil {
		return d, err
	}
	priority, err := manifests.Priority()
	if err != nil {
		return d, err
	}
	d.others = slices.Concat(access, priority, configurations, policies)
	inventory, err := manifests.Inventory(p.opts.Version)
	if err != nil {
		return d, err
	}
	d.embedded, err = manifests.Deployments(p.opts.Version)
	d.inventory = slices.Concat(inventory, d.embedded)
	return d, err
}

// define applies the definitions.
func (p *plane) define(ctx context.Context, d definitions) error {
	end := p.progress.Phase(progress.PhaseCRDs)
	client, err := apply.New(restConfig(p.Info, p.PKI.Admin))
	if err != nil {
		return err
	}
	var written [3]int
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		if written[0], err = client.Ensure(gctx, d.crds); err != nil {
			return err
		}
		return client.Served(gctx, d.crds)
	})
	group.Go(func() (err error) {
		if written[1], err = client.Ensure(gctx, d.others); err != nil {
			return err
		}
		manager, err := apply.New(restConfig(p.Info, p.PKI.Manager))
		if err != nil {
			return err
		}
		return manager.Allowed(gctx)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if written[2], err = client.Ensure(ctx, d.inventory); err != nil {
		return err
	}
	if err := p.reportEmbedded(ctx, d, false); err != nil {
		return err
	}
	end(fmt.Sprintf("%d of %d objects written", written[0]+written[1]+written[2],
		len(d.crds)+len(d.others)+len(d.inventory)))
	return nil
}

// reportEmbedded writes to the Deployments of the built-in providers whether these work.
func (p *plane) reportEmbedded(ctx context.Context, d definitions, works bool) error {
	c, err := client.New(restConfig(p.Info, p.PKI.Admin), client.Options{})
	if err != nil {
		return fmt.Errorf("making a client of the API server: %w", err)
	}
	for _, o := range d.embedded {
		key := client.ObjectKey{Namespace: o.Namespace, Name: o.Name}
		if err := providers.ReportEmbedded(ctx, c, key, works); err != nil {
			return err
		}
	}
	return nil
}

// running is a started manager.
type running struct {
	*controllers.Controllers
	ready <-chan struct{}
}

// manager sets up all controllers and starts them.
func (p *plane) manager(ctx context.Context) (*running, error) {
	end := p.progress.Phase(progress.PhaseManager)
	// Don't use the start's context: what is created here outlives the start, and ends with the process.
	c, err := controllers.New(context.WithoutCancel(ctx), controllers.Options{
		Config:             restConfig(p.Info, p.PKI.Manager),
		WebhookHost:        "127.0.0.1",
		WebhookPort:        p.Ports.Webhook,
		WebhookCertificate: p.PKI.Webhook.Current,
		MetricsAddress:     p.opts.MetricsAddress,
		Concurrency:        p.opts.Concurrency,
		ConnectRetry:       p.opts.ConnectRetry,
		Scheme:             p.opts.Scheme,
		Gates:              p.opts.gates,
		RuntimeClient:      p.runtimeClient,
		Setup:              append([]controllers.Setup{p.providers}, p.opts.Setup...),
	})
	if err != nil {
		return nil, err
	}
	ready := make(chan struct{})
	p.stack.start("the manager", func(ctx context.Context) error {
		return c.Run(ctx, func() { end(""); close(ready) })
	})
	return &running{Controllers: c, ready: ready}, nil
}

// seed applies the objects that the plane starts with.
func (p *plane) seed(ctx context.Context, manager *running) error {
	end := p.progress.Phase(progress.PhaseSeed)
	if p.opts.Seed == nil {
		end("")
		return nil
	}
	documents, err := p.opts.Seed(p.Info)
	if err != nil {
		return err
	}
	c, err := manager.Client()
	if err != nil {
		return err
	}
	admin, err := client.New(restConfig(p.Info, p.PKI.Admin), client.Options{Scheme: c.Scheme(), Mapper: c.RESTMapper()})
	if err != nil {
		return fmt.Errorf("making a client of the API server: %w", err)
	}
	written, err := seed(ctx, admin, documents)
	if err != nil {
		return err
	}
	end(fmt.Sprintf("%d objects written", written))
	return nil
}

// wait returns nil when all channels are closed, or an error if a part fails or ctx ends first.
func (p *plane) wait(ctx context.Context, channels ...<-chan struct{}) error {
	for _, c := range channels {
		select {
		case <-c:
		case err := <-p.stack.failed:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// keep starts a child, keeps it running, and records the phase of its start. It closes the returned channel when the
// child is ready for the first time.
func (p *plane) keep(phase string, child process.Process) <-chan struct{} {
	ready := make(chan struct{})
	end := p.progress.Phase(phase)
	var first atomic.Bool
	child.Started = func(pid int) {
		p.progress.Component(child.Name, func(c *progress.Component) { c.Pid = pid })
	}
	p.stack.start(child.Name, func(ctx context.Context) error {
		return child.Keep(ctx, backoff.Backoff{}, process.Watch{
			Ready: func() {
				p.progress.Component(child.Name, func(c *progress.Component) { c.Up = true })
				if !first.Swap(true) {
					end("")
					close(ready)
				}
			},
			Died: func(err error, pause time.Duration) {
				klog.Background().Error(err, "A process died and is being restarted", "process", child.Name, "pause", pause)
				p.progress.Component(child.Name, func(c *progress.Component) {
					c.Up, c.Pid, c.LastExit = false, 0, err.Error()
					c.Restarts++
				})
			},
		})
	})
	return ready
}
