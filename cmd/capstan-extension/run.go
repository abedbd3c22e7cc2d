package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/extension"
	"github.com/capstan-dev/capstan/extension/backup"
	"github.com/capstan-dev/capstan/runtime/certificate"
	"github.com/capstan-dev/capstan/runtime/server"
)

// version is set by the linker.
var version string

// readTimeout limits one request to the API server: callers of the extension wait ten seconds for a response.
const readTimeout = 8 * time.Second

// linger is how long a replica keeps serving, with a failing readiness probe, after it is asked to stop: a Service may
// send it calls for that long.
const linger = 3 * time.Second

type flags struct {
	kubeconfig   string
	listen       string
	certFile     string
	keyFile      string
	certDir      string
	certSecret   string
	certHosts    string
	clientCAFile string
	healthz      string
	bundle       string
	backups      string
	leases       string
	version      bool
}

func (f *flags) parse(args []string, stderr io.Writer) error {
	set := flag.NewFlagSet("capstan-extension", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&f.kubeconfig, "kubeconfig", "",
		"kubeconfig `file` for the management cluster; default: the service account of the pod")
	set.StringVar(&f.listen, "listen", "127.0.0.1:9443",
		"`address` to serve hooks on; with port 0 the system picks a port, which the log shows")
	set.StringVar(&f.certFile, "cert-file", "",
		"`file` with the server's certificate in PEM form; reloaded when it changes")
	set.StringVar(&f.keyFile, "key-file", "",
		"`file` with the key of the certificate in PEM form; reloaded when it changes")
	set.StringVar(&f.certDir, "cert-dir", "",
		"`directory` with tls.crt and tls.key, instead of --cert-file and --key-file")
	set.StringVar(&f.certSecret, "cert-secret", "",
		"`namespace/name` of a Secret in which the process keeps a certificate that it creates and renews itself, instead "+
			"of files")
	set.StringVar(&f.certHosts, "cert-hosts", "",
		"`names` by which callers call the server, separated by commas, for --cert-secret")
	set.StringVar(&f.clientCAFile, "client-ca-file", "",
		"`file` with CAs in PEM form; callers then need a certificate that one of them signed")
	set.StringVar(&f.healthz, "healthz", "",
		"`address` to serve /healthz, /readyz and /metrics on over plain HTTP; default: not served")
	set.StringVar(&f.bundle, "bundle", "",
		"capstan-kube `file` of a Kubernetes bundle, whose etcd verifies backups; default: no backups are taken")
	set.StringVar(&f.backups, "backups", "", "`directory` to keep backups of clusters in; default: none are kept on disk")
	set.StringVar(&f.leases, "lease-namespace", "",
		"`namespace` of the Leases by which replicas agree on who takes a backup; default: a single replica")
	set.BoolVar(&f.version, "version", false, "print the version and exit")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: see --help", set.Arg(0))
	}
	return f.complete()
}

func (f *flags) complete() error {
	if f.version {
		return nil
	}
	if err := f.checkBackups(); err != nil {
		return err
	}
	if f.certSecret != "" {
		return f.completeSecret()
	}
	if f.certHosts != "" {
		return errors.New("--cert-hosts names the hosts of a certificate that this process creates: also give --cert-secret")
	}
	if f.certDir != "" {
		if f.certFile != "" || f.keyFile != "" {
			return errors.New("--cert-dir excludes --cert-file and --key-file: give one or the other")
		}
		f.certFile, f.keyFile = filepath.Join(f.certDir, "tls.crt"), filepath.Join(f.certDir, "tls.key")
	}
	if f.certFile == "" || f.keyFile == "" {
		return errors.New("the server needs a certificate: give --cert-file and --key-file, --cert-dir, or --cert-secret")
	}
	return nil
}

// checkBackups finds mistakes that would otherwise show only when the first cluster is upgraded.
func (f *flags) checkBackups() error {
	if f.backups != "" && !filepath.IsAbs(f.backups) {
		return fmt.Errorf("--backups is %q: give an absolute path", f.backups)
	}
	if f.backups != "" && f.bundle == "" {
		return errors.New("--backups needs an etcd that verifies each backup: also give --bundle")
	}
	if f.bundle == "" {
		return nil
	}
	if err := (backup.Tool{Path: f.bundle}).Check(); err != nil {
		return fmt.Errorf("--bundle: %w", err)
	}
	return nil
}

func (f *flags) completeSecret() error {
	if f.certDir != "" || f.certFile != "" || f.keyFile != "" {
		return errors.New("--cert-secret excludes certificate files: give one or the other")
	}
	if namespace, name, ok := strings.Cut(f.certSecret, "/"); !ok || namespace == "" || name == "" {
		return fmt.Errorf("--cert-secret is %q: write it as namespace/name", f.certSecret)
	}
	if f.certHosts == "" {
		return errors.New("a certificate needs names: give --cert-hosts")
	}
	return nil
}

// run runs the program and returns its exit code: 0 when ctx is done, 1 on an error, 2 for wrong arguments.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var f flags
	if err := f.parse(args, stderr); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		fmt.Fprintf(stderr, "capstan-extension: %v\n", err)
		return 2
	}
	if f.version {
		fmt.Fprintln(stdout, "capstan-extension", versionText())
		return 0
	}
	logger := slog.New(slog.NewJSONHandler(stderr, nil))
	if err := serve(ctx, f, logger); err != nil {
		logger.Error("The extension stops", "error", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, f flags, logger *slog.Logger) error {
	config, err := restConfig(f.kubeconfig)
	if err != nil {
		return err
	}
	scheme, err := extension.Scheme()
	if err != nil {
		return fmt.Errorf("registering types: %w", err)
	}
	reader, err := client.New(config, client.Options{Scheme: scheme, Mapper: extension.Mapper()})
	if err != nil {
		return fmt.Errorf("creating a client of the management cluster: %w", err)
	}
	metrics := prometheus.NewRegistry()
	options := extension.Options{
		Reader: reader, Events: reader, Log: logger, Metrics: metrics, Bundle: f.bundle, Backups: f.backups,
	}
	if f.leases != "" {
		leases, err := coordinationv1.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("creating a client for Leases: %w", err)
		}
		options.Replicas = &backup.Replicas{Leases: leases, Namespace: f.leases}
	}
	handler, err := extension.New(options)
	if err != nil {
		return err
	}
	defer handler.Close()
	stopHealth, err := serveHealth(ctx, f.healthz, handler.Health(), metrics)
	if err != nil {
		return err
	}
	defer stopHealth()
	tls := server.TLS{
		Address: f.listen, CertFile: f.certFile, KeyFile: f.keyFile, ClientCAFile: f.clientCAFile, Log: logger,
		Ready: func(address net.Addr) {
			logger.Info("Serving hooks", "address", address.String(), "version", versionText())
		},
	}
	if f.certSecret == "" {
		return server.Serve(ctx, tls, handler)
	}
	tls.Linger = linger
	return serveOwn(ctx, f, reader, tls, handler)
}

// serveOwn serves with a certificate that it creates and renews itself, in a Secret that all replicas share.
func serveOwn(ctx context.Context, f flags, c client.Client, tls server.TLS, handler http.Handler) error {
	namespace, name, _ := strings.Cut(f.certSecret, "/")
	keeper, err := certificate.New(ctx, certificate.InSecret(c, types.NamespacedName{Namespace: namespace, Name: name}),
		certificate.Options{Hosts: strings.Split(f.certHosts, ","), Name: extension.Name, Log: tls.Log})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- keeper.Run(ctx) }()
	tls.GetCertificate = keeper.GetCertificate
	err = server.Serve(ctx, tls, handler)
	cancel()
	return errors.Join(err, <-ended)
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if kubeconfig == "" {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("reading how to reach the management cluster (--kubeconfig): %w", err)
	}
	config.Timeout = readTimeout
	config.UserAgent = "capstan-extension/" + versionText()
	config.QPS, config.Burst = -1, -1 // the gate makes only a few requests, one after the other
	return config, nil
}

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
