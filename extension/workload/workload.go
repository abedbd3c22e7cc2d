// Package workload connects to the API server of a workload cluster, with the kubeconfig that Cluster API keeps in the
// Secret <cluster>-kubeconfig.
//
// Neither side can be trusted: whoever may write Secrets in the Cluster's namespace controls that kubeconfig, and
// whoever owns the workload cluster controls its answers. So [Config] refuses what package kubeconfig refuses, and each
// request is limited in time and each answer in size.
package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/kubeconfig"
)

const (
	// HookTimeout is how long callers wait for a hook that accesses a workload cluster.
	HookTimeout = 30 * time.Second
	// HookRetry is the time until the next call for a Cluster whose API server did not answer, or in which something is
	// wrong.
	HookRetry = 5 * time.Second

	// requestTimeout limits one request to a workload cluster.
	requestTimeout = 8 * time.Second
	// maxAnswer is the maximum size in bytes of one answer of a workload cluster, unpacked. A list of a thousand large
	// objects fits.
	maxAnswer = 64 << 20
	// connections is the maximum number of open connections to one workload cluster.
	connections = 4
)

// ErrNoKubeconfig reports that the Secret with the kubeconfig does not exist or contains none.
var ErrNoKubeconfig = errors.New("there is no kubeconfig")

// Cluster is a connection to the API server of a workload cluster. Create it with [Connect] and Close it.
type Cluster struct {
	// Client reads from the API server, not from a cache.
	client.Client
	// Config is the configuration of the connection.
	Config *rest.Config
	// HTTP sends requests to the API server with the credentials of Config.
	HTTP *http.Client

	transport *http.Transport
}

// Connect reads the kubeconfig of a Cluster and returns a client for it, without a request to its API server.
// Connections close at the deadline of ctx. The deadline therefore limits even the client's discovery requests, which
// take no context.
func Connect(ctx context.Context, management client.Reader, cluster client.ObjectKey,
	scheme *runtime.Scheme) (*Cluster, error) {
	secret := &corev1.Secret{}
	name := client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + "-kubeconfig"}
	if err := management.Get(ctx, name, secret); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w: Secret %s does not exist", ErrNoKubeconfig, name)
	} else if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	data := secret.Data["value"]
	if len(data) == 0 {
		return nil, fmt.Errorf("%w: Secret %s has no key value", ErrNoKubeconfig, name)
	}
	config, err := Config(data)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig in Secret %s: %w", name, err)
	}
	deadline, _ := ctx.Deadline()
	return open(config, scheme, deadline)
}

// Open returns a client for a configuration.
func Open(config *rest.Config, scheme *runtime.Scheme) (*Cluster, error) {
	return open(config, scheme, time.Time{})
}

// open returns a client whose connections close at the deadline, if it is not zero.
func open(config *rest.Config, scheme *runtime.Scheme, deadline time.Time) (*Cluster, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading certificates: %w", err)
	}
	// Use a separate transport: client-go keeps its own for the life of the process.
	transport := &http.Transport{
		TLSClientConfig: tls, ForceAttemptHTTP2: true, TLSHandshakeTimeout: requestTimeout, MaxConnsPerHost: connections,
		Proxy: http.ProxyFromEnvironment, // leads out of the dock
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{Deadline: deadline}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			if err := conn.SetDeadline(deadline); err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			return conn, nil
		},
	}
	wrapped, err := rest.HTTPWrappersForConfig(config, sameText{transport})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	c := &Cluster{Config: config, HTTP: &http.Client{Transport: wrapped, Timeout: requestTimeout}, transport: transport}
	if c.Client, err = client.New(config, client.Options{Scheme: scheme, HTTPClient: c.HTTP}); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return c, nil
}

// sameText gives the same connection failure the same text each time. Failures end up in conditions, but their text
// contains a local port, which changes. It also limits the size of answers.
type sameText struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t sameText) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(request)
	if op := new(net.OpError); errors.As(err, &op) {
		op.Source = nil
	}
	if response != nil && response.StatusCode != http.StatusSwitchingProtocols {
		response.Body = &bounded{ReadCloser: response.Body, left: maxAnswer}
	}
	return response, err
}

// bounded is the body of an answer. Read fails if the body is too large, because client-go reads all of it into memory.
type bounded struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, fmt.Errorf("the answer of the workload cluster has more than %d bytes", maxAnswer)
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n, fmt.Errorf("the answer of the workload cluster has more than %d bytes", maxAnswer)
	}
	return n, err
}

// WrappedRoundTripper lets client-go find the transport inside.
func (t sameText) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// Close closes idle connections.
func (c *Cluster) Close() { c.transport.CloseIdleConnections() }

// Config parses a kubeconfig that must not be trusted. Package kubeconfig documents what it refuses.
func Config(text []byte) (*rest.Config, error) {
	config, err := kubeconfig.Client(text)
	if err != nil {
		return nil, err
	}
	config.UserAgent, config.Timeout, config.QPS = "capstan-extension", requestTimeout, -1
	return config, nil
}
