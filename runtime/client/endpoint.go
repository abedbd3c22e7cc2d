package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/wire"
	"github.com/capstan-dev/capstan/runtime/registry"
)

// endpoint is the server of one extension.
type endpoint struct {
	base *url.URL
	http *http.Client
}

// transportOptions are the same for all endpoints.
type transportOptions struct {
	certificate func() (*tls.Certificate, error)
	idle        int // connections kept open to each server
}

// newEndpoint reads a client configuration (RC-04 to RC-09). It makes no connection.
func newEndpoint(config runtimev1.ClientConfig, options transportOptions) (*endpoint, error) {
	base, err := baseURL(config)
	if err != nil {
		return nil, err
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(4)}
	if len(config.CABundle) > 0 {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(config.CABundle) {
			return nil, errors.New("spec.clientConfig.caBundle holds no certificate in PEM form")
		}
	}
	if options.certificate != nil {
		trust.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return options.certificate() }
	}
	// HTTP/1.1 only: on short exchanges it is faster than HTTP/2, and a connection whose peer has vanished costs one call its
	// timeout, while over HTTP/2 all calls share it until the kernel gives up.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &endpoint{base: base, http: &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext,
			TLSClientConfig:        trust,
			TLSHandshakeTimeout:    registry.DefaultTimeout,
			Protocols:              protocols,
			MaxIdleConnsPerHost:    options.idle,
			MaxConnsPerHost:        16 * options.idle,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true, // a small body could unfold to a huge one
			WriteBufferSize:        32 << 10,
		},
		// A server must not send the call elsewhere: the other end was not registered by an administrator (CL-21).
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// baseURL gives the URL that paths of handlers are appended to.
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
		return nil, fmt.Errorf("reading spec.clientConfig.url: %w", err)
	case base.Scheme != "https":
		return nil, fmt.Errorf("spec.clientConfig.url has the scheme %q: only https is allowed", base.Scheme)
	case base.Hostname() == "":
		return nil, errors.New("spec.clientConfig.url has no host")
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return nil, errors.New("spec.clientConfig.url must not have user information, a query or a fragment")
	}
	return &url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimSuffix(base.Path, "/")}, nil
}

// exchange posts a request and decodes the answer into an empty response, of which nothing may be used on an error.
func (e *endpoint) exchange(ctx context.Context, served *hook.Descriptor, handler string, timeout time.Duration, body []byte, response runtime.Object) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, &timeoutError{timeout})
	defer cancel()
	data, err := e.post(ctx, served.ID.Path(handler), timeout, body)
	// Says it better than what the transport makes of it. A body that seems to end just then is late too: a server that notices that
	// the connection is being closed may end it properly.
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return stable(err)
	}
	return wire.Decode(data, response, served.ID.APIVersion(), served.ResponseKind)
}

func (e *endpoint) post(ctx context.Context, path string, timeout time.Duration, body []byte) ([]byte, error) {
	target := *e.base
	target.Path += path
	target.RawQuery = "timeout=" + timeout.String()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", wire.ContentType)
	request.Header.Set("Accept", wire.ContentType)
	// Handlers are idempotent (RX-25), so a call that meets a kept connection in the moment the server closes it may be sent again
	// on a new one. An empty list says that to the transport; nothing is sent.
	request.Header["Idempotency-Key"] = []string{}
	answer, err := e.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // read to its end, or the connection is thrown away
	if answer.StatusCode != http.StatusOK {
		return nil, statusCodeError(answer)
	}
	return wire.Read(answer.Body, wire.MaxBody, answer.ContentLength)
}

// statusCodeError quotes the beginning of the body: servers say there what is wrong.
func statusCodeError(answer *http.Response) error {
	const quoted = 256
	head, _ := io.ReadAll(io.LimitReader(answer.Body, quoted+1)) // what can be had of it
	text := strings.ToValidUTF8(strings.TrimSpace(string(head)), "")
	if text == "" {
		return fmt.Errorf("it answered with the HTTP status %d instead of 200", answer.StatusCode)
	}
	return fmt.Errorf("it answered with the HTTP status %d instead of 200: %q", answer.StatusCode, wire.Clip(text, quoted))
}

func (e *endpoint) closeIdle() { e.http.CloseIdleConnections() }

// endpoints keeps one endpoint for each extension, so that connections outlive calls. An extension that is registered again with the same
// client configuration keeps its connections.
type endpoints struct {
	options transportOptions

	mu   sync.Mutex
	kept map[string]keptEndpoint // by name of the ExtensionConfig
}

type keptEndpoint struct {
	extension *registry.Extension // that the endpoint was last asked for
	endpoint  *endpoint
}

func newEndpoints(options transportOptions) *endpoints {
	return &endpoints{options: options, kept: map[string]keptEndpoint{}}
}

func (e *endpoints) of(extension *registry.Extension) (*endpoint, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	kept, ok := e.kept[extension.Name]
	switch {
	case ok && kept.extension == extension:
		return kept.endpoint, nil
	case ok && reflect.DeepEqual(kept.extension.Client, extension.Client):
		e.kept[extension.Name] = keptEndpoint{extension, kept.endpoint}
		return kept.endpoint, nil
	}
	made, err := newEndpoint(extension.Client, e.options)
	if err != nil {
		return nil, fmt.Errorf("ExtensionConfig %q: %w", extension.Name, err)
	}
	if ok {
		kept.endpoint.closeIdle()
	}
	e.kept[extension.Name] = keptEndpoint{extension, made}
	return made, nil
}

func (e *endpoints) drop(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if kept, ok := e.kept[name]; ok {
		kept.endpoint.closeIdle()
		delete(e.kept, name)
	}
}

func (e *endpoints) closeIdle() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, kept := range e.kept {
		kept.endpoint.closeIdle()
	}
}
