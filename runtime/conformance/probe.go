package conformance

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/wire"
	"github.com/capstan-dev/capstan/runtime/openapi"
	"github.com/capstan-dev/capstan/runtime/registry"
)

// handler is one handler of the extension, from its discovery.
type handler struct {
	name       string
	descriptor *hook.Descriptor
	timeout    time.Duration
	path       string
	body       []byte // a valid request
	hasCluster bool   // the request contains a Cluster

	// Results of the check "answers"; response is nil if there was no answer.
	answer   answer
	response runtimehooksv1.ResponseObject
	expect   []byte // the answer in canonical form
}

// probe calls the extension.
type probe struct {
	target    Target
	base      string
	http      *http.Client
	handlers  []*handler
	found     *runtimehooksv1.DiscoveryResponse // nil if there was none
	discovery []byte                            // the same in canonical form
	document  *openapi.Document                 // of the catalog; nil until it is needed

	// excess counts the handlers that are beyond the limit or have too long a name; they are not called.
	excess      int
	excessNames []string // of the first of them
}

func newProbe(target Target) (*probe, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: target.ServerName}
	if len(target.CA) > 0 {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(target.CA) {
			return nil, errors.New("checking an extension: the CA holds no certificate in PEM form")
		}
	}
	if target.Certificate != nil {
		trust.Certificates = []tls.Certificate{*target.Certificate}
	}
	return &probe{target: target, base: strings.TrimSuffix(target.URL, "/"), http: &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: trust, TLSHandshakeTimeout: discoveryTimeout, DisableCompression: true,
			MaxIdleConnsPerHost:    target.Parallel,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func (p *probe) close() { p.http.CloseIdleConnections() }

// discover reads the handlers for the checks that follow.
func (p *probe) discover(response *runtimehooksv1.DiscoveryResponse) error {
	for _, h := range response.Handlers {
		group, version, _ := strings.Cut(h.RequestHook.APIVersion, "/")
		descriptor, known := p.target.Catalog.Get(hook.ID{Group: group, Version: version, Name: h.RequestHook.Hook})
		if !known {
			continue // reported by its own check
		}
		if len(p.handlers) == registry.MaxHandlers || len(h.Name) > maxName {
			if p.excess++; len(p.excessNames) < maxNames {
				p.excessNames = append(p.excessNames, wire.Clip(h.Name, maxName))
			}
			continue
		}
		request, err := p.target.Request(descriptor)
		if err != nil {
			return fmt.Errorf("making a request of hook %s: %w", descriptor.ID, err)
		}
		if carrier, ok := request.(runtimehooksv1.RequestObject); ok && len(p.target.Settings) > 0 {
			carrier.SetSettings(p.target.Settings)
		}
		body, err := wire.Encode(request, descriptor.ID.APIVersion(), descriptor.RequestKind)
		if err != nil {
			return err
		}
		timeout := registry.DefaultTimeout
		if h.TimeoutSeconds != nil && *h.TimeoutSeconds > 0 {
			timeout = min(time.Duration(*h.TimeoutSeconds)*time.Second, registry.MaxTimeout)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(body, &fields); err != nil {
			return err
		}
		p.handlers = append(p.handlers, &handler{
			name: h.Name, descriptor: descriptor, timeout: timeout, path: descriptor.ID.Path(h.Name),
			body: body, hasCluster: fields["cluster"] != nil,
		})
	}
	return nil
}

// fixed brings JSON into canonical form, so that answers can be compared whatever the order of members.
func fixed(data []byte) ([]byte, error) {
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}
