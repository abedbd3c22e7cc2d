// Command capstan-manager runs the infrastructure provider in a management cluster.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2/textlogger"
	"sigs.k8s.io/cluster-api/feature"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/gates"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/kubeconfig"
	"github.com/capstan-dev/capstan/provider"
	"github.com/capstan-dev/capstan/provider/host"
	"github.com/capstan-dev/capstan/provider/migration"
	"github.com/capstan-dev/capstan/provider/pace"
	infrawebhook "github.com/capstan-dev/capstan/provider/webhook"
)

// version is set by the linker.
var version = "(devel)"

func main() { os.Exit(run(ctrl.SetupSignalHandler(), os.Args[1:], os.Stderr)) }

// settings are the flags.
type settings struct {
	namespace, watchFilter string
	election               election
	healthAddr, metrics    string
	concurrency            int
	machineConcurrency     int
	limits                 pace.Limits
	unlinkedTimeout        time.Duration
	webhookPort            int
	webhookCertDir         string
	ownCertificates        string
	version                bool
	featureGates           string
	proof                  string
	bundles                bundleFlags
	// gates are all feature gates, according to featureGates.
	gates gates.Set
}

func run(ctx context.Context, args []string, stderr io.Writer) int {
	s, logging, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "capstan-manager: %v\n", err)
		return 2
	}
	if s.version {
		fmt.Fprintln(stderr, "capstan-manager", version)
		return 0
	}
	ctrl.SetLogger(textlogger.NewLogger(logging))
	if err := manage(ctx, s); err != nil {
		fmt.Fprintf(stderr, "capstan-manager: %v\n", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (settings, *textlogger.Config, error) {
	s, logging := settings{}, textlogger.NewConfig(textlogger.Output(stderr))
	flags := flag.NewFlagSet("capstan-manager", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.namespace, "namespace", "", "namespace to work in; empty: all")
	flags.StringVar(&s.watchFilter, "watch-filter", "",
		"value of label cluster.x-k8s.io/watch-filter on the objects to reconcile; empty: all objects")
	s.election.addFlags(flags)
	flags.StringVar(&s.healthAddr, "health-addr", ":9440", "address of /healthz and /readyz")
	flags.StringVar(&s.metrics, "metrics-bind", "127.0.0.1:8080", "address of /metrics; 0: none")
	flags.IntVar(&s.concurrency, "concurrency", provider.DefaultConcurrency,
		"number of objects of each kind other than CapstanMachine to reconcile at once")
	flags.IntVar(&s.machineConcurrency, "machine-concurrency", provider.DefaultMachineConcurrency,
		"number of CapstanMachines to reconcile at once")
	s.addLimits(flags)
	flags.DurationVar(&s.unlinkedTimeout, "unlinked-timeout", host.DefaultUnlinkedTimeout,
		"how long the Machine or Cluster of a claimed host may be missing before the host is marked as left behind")
	flags.IntVar(&s.webhookPort, "webhook-port", webhook.DefaultPort, "port of the conversion and admission webhooks")
	flags.StringVar(&s.webhookCertDir, "webhook-cert-dir", "",
		"directory with the webhooks' tls.crt and tls.key, reloaded when they change; empty: serve no webhooks, which "+
			"works only for definitions without conversion")
	flags.StringVar(&s.ownCertificates, "webhook-own-certificates", "",
		"namespace of Service "+webhookService+"; for management clusters without cert-manager: the manager creates the "+
			"webhooks' certificate itself and makes the API server trust it; replaces --webhook-cert-dir")
	flags.StringVar(&s.featureGates, "feature-gates", "", "feature gates of Cluster API that differ from "+
		gates.Manager().String()+", as NAME=true,NAME=false. ClusterTopology=false refuses CapstanClusterTemplates, "+
		"PriorityQueue=true puts urgent work first; the others have no effect here")
	flags.StringVar(&s.proof, "cleaning-proof", string(infrav1.ProofCompare), "what proves that an owned host is clean "+
		"after a machine, unless spec.cleaning of the host overrides it: Trust, Compare or Reimage")
	s.bundles.add(flags)
	flags.BoolVar(&s.version, "version", false, "print the version and exit")
	logging.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return s, nil, err
	}
	if flags.NArg() > 0 {
		return s, nil, fmt.Errorf("unexpected argument %q: this command takes only flags, see --help", flags.Arg(0))
	}
	if s.webhookCertDir != "" && s.ownCertificates != "" {
		return s, nil, errors.New("--webhook-own-certificates excludes --webhook-cert-dir: give one or the other")
	}
	switch infrav1.CleaningProof(s.proof) {
	case infrav1.ProofTrust, infrav1.ProofCompare, infrav1.ProofReimage:
	default:
		return s, nil, fmt.Errorf("--cleaning-proof can't be %q: give Trust, Compare or Reimage", s.proof)
	}
	if _, err := s.bundles.policy(); err != nil {
		return s, nil, err
	}
	changes, err := gates.Parse(s.featureGates)
	if err == nil {
		s.gates, err = gates.Manager().With(changes)
	}
	if err != nil {
		return s, nil, fmt.Errorf("--feature-gates: %w; %s", err, hint.Of(err))
	}
	return s, logging, nil
}

// addLimits adds the flags that limit operations on hosts.
func (s *settings) addLimits(flags *flag.FlagSet) {
	flags.Float64Var(&s.limits.All.PerSecond, "host-rate", pace.DefaultAll.PerSecond,
		"how many hosts per second are claimed, given bootstrap data, released, powered on or destroyed: a limit for each "+
			"of these operations")
	flags.IntVar(&s.limits.All.Burst, "host-burst", pace.DefaultAll.Burst,
		"how many of these operations, of each kind, may happen at once")
	flags.Float64Var(&s.limits.Each.PerSecond, "each-host-rate", pace.DefaultEach.PerSecond,
		"how often per second each of these operations may happen on one host")
	flags.IntVar(&s.limits.Each.Burst, "each-host-burst", pace.DefaultEach.Burst,
		"how often at once each of these operations may happen on one host")
}

func manage(ctx context.Context, s settings) error {
	if err := s.gates.Open(); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(provider.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme),
		infrawebhook.AddToScheme(scheme), admissionregistrationv1.AddToScheme(scheme)); err != nil {
		return err
	}
	byObject, err := provider.CacheByObject()
	if err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w; run in a cluster, or set KUBECONFIG", err)
	}
	serving := webhook.Options{Port: s.webhookPort, CertDir: s.webhookCertDir}
	var own *certificates
	if s.ownCertificates != "" {
		if own, err = ownCertificates(ctx, config, scheme, s.ownCertificates); err != nil {
			return err
		}
		serving.TLSOpts = append(serving.TLSOpts, func(c *tls.Config) { c.GetCertificate = own.GetCertificate })
	}
	options := ctrl.Options{
		Scheme:                 scheme,
		Cache:                  cache.Options{ByObject: byObject},
		Metrics:                server.Options{BindAddress: s.metrics},
		HealthProbeBindAddress: s.healthAddr,
		WebhookServer:          webhook.NewServer(serving),
	}
	s.election.apply(&options, s.namespace, s.watchFilter)
	if s.namespace != "" {
		options.Cache.DefaultNamespaces = map[string]cache.Config{s.namespace: {}}
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	bundles, err := s.bundles.policy()
	if err != nil {
		return err
	}
	err = errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping),
		provider.Setup(ctx, mgr, provider.Options{
			Kubeconfig:  kubeconfig.Client,
			WatchFilter: s.watchFilter, Concurrency: s.concurrency, MachineConcurrency: s.machineConcurrency,
			UnlinkedTimeout: s.unlinkedTimeout, HostLimits: s.limits,
			PriorityQueue: s.gates.On(feature.PriorityQueue), Proof: infrav1.CleaningProof(s.proof),
			Bundles: bundles, Metrics: ctrlmetrics.Registry,
		}),
		migration.Setup(ctx, mgr))
	if own != nil {
		err = errors.Join(err, mgr.Add(own))
	}
	if s.webhookCertDir != "" || own != nil {
		var options []infrawebhook.Option
		if !s.gates.On(feature.ClusterTopology) {
			options = append(options, infrawebhook.NoClusterClasses())
		}
		err = errors.Join(err, infrawebhook.Setup(mgr, options...),
			mgr.AddReadyzCheck("webhooks", mgr.GetWebhookServer().StartedChecker()))
	}
	if err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}
