package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/post"
	"github.com/capstan-dev/capstan/runtime/internal/wire"
	"github.com/capstan-dev/capstan/runtime/registry"
)

const (
	// idleTimeout is how long an idle connection is kept.
	idleTimeout = 90 * time.Second
	// openFactor limits the open connections to an endpoint: to this many times the connections that are kept idle.
	// Several hooks may be called at the same time.
	openFactor = 16
)

// endpoint is the server of one extension.
type endpoint struct {
	prefix  string // path before that of a handler
	poster  poster
	circuit circuit
}

// poster sends requests to one server.
type poster interface {
	// Do sends a request to the path and query of the call, and reads the answer.
	Do(ctx context.Context, call *post.Call, deadline time.Time, request post.Request) (post.Answer, error)
	// CloseIdle closes idle connections.
	CloseIdle()
	// Retire closes idle connections now, and the others when their calls have ended.
	Retire()
}

// transportOptions are the same for all endpoints.
type transportOptions struct {
	certificate func() (*tls.Certificate, error)
	idle        int // connections kept open to each server
	longest     time.Duration
	proxy       func(*http.Request) (*url.URL, error)
	dial        func(ctx context.Context, network, address string) (net.Conn, error) // may be nil
}

// newEndpoint reads a client configuration (RC-04 to RC-09). It opens no connection.
func newEndpoint(config runtimev1.ClientConfig, options transportOptions) (*endpoint, error) {
	base, err := baseURL(config)
	if err != nil {
		return nil, err
	}
	trust := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: base.Hostname(), ClientSessionCache: tls.NewLRUClientSessionCache(4),
	}
	if len(config.CABundle) > 0 {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(config.CABundle) {
			return nil, errors.New("spec.clientConfig.caBundle holds no certificate in PEM form")
		}
	}
	if options.certificate != nil {
		trust.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return options.certificate()
		}
	}
	e := &endpoint{prefix: base.EscapedPath(), circuit: circuit{longest: options.longest}}
	proxy, err := options.proxy(&http.Request{URL: base})
	if err != nil {
		return nil, fmt.Errorf("finding the proxy for %s: %w", base.Host, err)
	}
	if proxy != nil {
		e.poster = newProxied(base, proxy, trust, options)
		return e, nil
	}
	e.poster = post.New(post.Options{
		Address: addressOf(base), Host: base.Host, TLS: trust,
		Idle: options.idle, Open: openFactor * options.idle, IdleTimeout: idleTimeout,
		Dial: options.dial,
	})
	return e, nil
}

// addressOf returns the host and port of a URL; the default port is 443.
func addressOf(base *url.URL) string {
	port := base.Port()
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(base.Hostname(), port)
}

// baseURL returns the URL that the paths of handlers are appended to.
func baseURL(config runtimev1.ClientConfig) (*url.URL, error) {
	if config.Service.IsDefined() {
		service := config.Service
		if config.URL != "" {
			return nil, errors.New("spec.clientConfig has both url and service: set one")
		}
		host := service.Name + "." + service.Namespace + ".svc"
		if service.Port != nil {
			host = net.JoinHostPort(host, strconv.Itoa(int(*service.Port)))
		}
		return &url.URL{Scheme: "https", Host: host, Path: strings.TrimSuffix(service.Path, "/")}, nil
	}
	if config.URL == "" {
		return nil, errors.New("spec.clientConfig has neither url nor service: set one")
	}
	base, err := url.Parse(config.URL)
	switch {
	case err != nil:
		// The parser's error quotes the URL, which may contain a password.
		return nil, errors.New("reading spec.clientConfig.url: it is not a URL; it must look like https://host:port/path")
	case base.Scheme != "https":
		return nil, fmt.Errorf("spec.clientConfig.url has the scheme %q: only https is allowed", base.Scheme)
	case base.Hostname() == "":
		return nil, errors.New("spec.clientConfig.url has no host")
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return nil, errors.New("spec.clientConfig.url must not have user information, a query or a fragment")
	}
	return &url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimSuffix(base.Path, "/")}, nil
}

// exchange holds what one call needs in addition to its endpoint.
type exchange struct {
	served  *hook.Descriptor
	target  string // see registry.Handler
	timeout time.Duration
	start   time.Time
	header  map[string]string
	body    []byte
}

// exchange posts a request and decodes the answer into an empty response. After an error the response must not be
// used.
func (e *endpoint) exchange(ctx context.Context, call *post.Call, x exchange, response runtime.Object) error {
	deadline := x.start.Add(x.timeout)
	own := true // the deadline is this call's, not that of all handlers together
	if whole, ok := ctx.Deadline(); ok && whole.Before(deadline) {
		deadline, own = whole, false
	}
	answer, err := e.poster.Do(ctx, call, deadline, post.Request{
		Prefix: e.prefix, Target: x.target, Header: x.header, Body: x.body, Limit: wire.MaxBody,
	})
	switch {
	case err == nil:
	case !isLate(err) && time.Now().Before(deadline):
		return stable(err)
	case own:
		// This is clearer than the transport's error.
		return &failure{text: fmt.Sprintf("it did not answer within %s", x.timeout), cause: context.DeadlineExceeded}
	default:
		<-ctx.Done() // its deadline is the same, so this does not wait
		return context.Cause(ctx)
	}
	defer answer.Release()
	switch answer.Status {
	case http.StatusOK:
		return wire.Decode(answer.Body, response, x.served.ID.APIVersion(), x.served.ResponseKind)
	case http.StatusNotFound:
		if x.served.HasSettings { // a handler: Discovery is the only hook without settings
			return &failure{
				kind: unknownHandler,
				text: statusCodeError(answer).Error() +
					"; if the extension has changed, its handlers will soon be discovered again",
			}
		}
	}
	return statusCodeError(answer)
}

func isLate(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// statusCodeError quotes the beginning of the body, where servers explain the error.
func statusCodeError(answer post.Answer) error {
	return fmt.Errorf("it answered with the HTTP status %d instead of 200%s", answer.Status, quoted(answer.Body))
}

func quoted(body []byte) string {
	text := strings.ToValidUTF8(strings.TrimSpace(string(body)), "")
	if text == "" {
		return ""
	}
	return fmt.Sprintf(": %q", wire.Clip(text, post.MaxQuoted))
}

// discoveryTarget is the path and query of Discovery.
var discoveryTarget = registry.Target(hook.Discovery.ID(), "", discoveryTimeout)
