// Package conformance checks a running extension, whatever it is written in: it calls it over HTTPS as Cluster API would, and as nobody should.
//
//	report, err := conformance.Run(ctx, conformance.Target{URL: "https://127.0.0.1:9443", CA: caPEM})
//	...
//	err = report.WriteText(os.Stdout)
//
// Each check names the rules of the contract that it is about. A check passes, fails, or warns: a warning is for what careful callers survive, or for
// what is recommended only. Requests are made by package sample, for a Cluster "sample" in namespace "default" that should not exist: a handler with
// effects outside has them.
package conformance

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/wire"
	"github.com/capstan-dev/capstan/runtime/registry"
	"github.com/capstan-dev/capstan/runtime/sample"
)

const (
	// DefaultRepeat is how often a request is repeated to see whether answers stay the same.
	DefaultRepeat = 5
	// DefaultParallel is how many calls are made at the same time.
	DefaultParallel = 16
	// discoveryTimeout is how long Cluster API waits for Discovery.
	discoveryTimeout = 10 * time.Second
)

// Target is the extension to check. URL must be set.
type Target struct {
	// URL of the extension as an ExtensionConfig has it: https, host and port, and a prefix if there is one.
	URL string
	// CA has the certificates that the server's must be of, in PEM form. Default: those that the machine trusts.
	CA []byte
	// Certificate is shown to a server that asks for one. Default: none.
	Certificate *tls.Certificate
	// ServerName is the name that the server's certificate must be for. Default: the host of the URL.
	ServerName string
	// Settings go into all requests.
	Settings map[string]string
	// Catalog of the hooks that can be called. Default: Cluster API's.
	Catalog *hook.Catalog
	// Request makes a request for a hook. Default: sample.Request.
	Request func(*hook.Descriptor) (runtime.Object, error)
	// Only names the checks to make, beside "discovery" and "answers", which others need. Default: all.
	Only []string
	// Repeat is how often a request is repeated. Default: DefaultRepeat.
	Repeat int
	// Parallel is how many calls are made at the same time. Default: DefaultParallel.
	Parallel int
}

func (t *Target) complete() error {
	if t.Catalog == nil {
		t.Catalog = hook.ClusterAPI()
	}
	if t.Request == nil {
		t.Request = func(d *hook.Descriptor) (runtime.Object, error) { return sample.Request(d, nil) }
	}
	t.Repeat, t.Parallel = cmp.Or(t.Repeat, DefaultRepeat), cmp.Or(t.Parallel, DefaultParallel)
	if t.Repeat < 2 || t.Parallel < 1 {
		return errors.New("checking an extension: Repeat must be at least 2 and Parallel at least 1")
	}
	for _, name := range t.Only {
		if !slices.ContainsFunc(Checks(), func(c Check) bool { return c.Name == name }) {
			return fmt.Errorf("checking an extension: there is no check %q", name)
		}
	}
	base, err := url.Parse(t.URL)
	if err != nil {
		return fmt.Errorf("checking an extension: reading its URL: %w", err)
	}
	if base.Scheme != "https" || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return fmt.Errorf("checking an extension: its URL is %q: it must be https, a host, and at most a path: Cluster API calls nothing else (RC-05)", t.URL)
	}
	return nil
}

// Run makes all checks and reports what they found. An error means that nothing could be checked; an extension that can't be reached is a report.
func Run(ctx context.Context, target Target) (*Report, error) {
	if err := target.complete(); err != nil {
		return nil, err
	}
	p, err := newProbe(target)
	if err != nil {
		return nil, err
	}
	defer p.close()
	report := &Report{URL: target.URL, Started: time.Now().UTC()}
	for _, c := range target.wanted(serverChecks) {
		report.add(c.Check, "", p.run(ctx, func(ctx context.Context) error { return c.run(ctx, p) }))
	}
	for _, h := range p.handlers {
		for _, c := range handlerChecks {
			if !target.wants(c.Check) {
				continue
			}
			report.add(c.Check, h.name, p.run(ctx, func(ctx context.Context) error { return c.run(ctx, p, h) }))
		}
	}
	for _, c := range target.wanted(lastChecks) {
		report.add(c.Check, "", p.run(ctx, func(ctx context.Context) error { return c.run(ctx, p) }))
	}
	report.Took = time.Since(report.Started)
	return report, ctx.Err()
}

func (t *Target) wants(c Check) bool {
	return len(t.Only) == 0 || c.Name == "discovery" || c.Name == "answers" || slices.Contains(t.Only, c.Name)
}

func (t *Target) wanted(checks []serverCheck) []serverCheck {
	return slices.DeleteFunc(slices.Clone(checks), func(c serverCheck) bool { return !t.wants(c.Check) })
}

// Check is one thing that is looked at.
type Check struct {
	// Name of the check, in words with dashes.
	Name string `json:"name"`
	// Rules of the contract that it is about.
	Rules []string `json:"rules"`
	// Doc says in one sentence what should be.
	Doc string `json:"doc"`
}

type serverCheck struct {
	Check
	run func(context.Context, *probe) error
}

type handlerCheck struct {
	Check
	run func(context.Context, *probe, *handler) error
}

// Checks lists all checks, in the order in which they are made.
func Checks() []Check {
	var all []Check
	for _, c := range serverChecks {
		all = append(all, c.Check)
	}
	for _, c := range handlerChecks {
		all = append(all, c.Check)
	}
	for _, c := range lastChecks {
		all = append(all, c.Check)
	}
	return all
}

// handler is one handler of the extension, as discovery has it.
type handler struct {
	name       string
	descriptor *hook.Descriptor
	timeout    time.Duration
	path       string
	body       []byte // a good request
	expect     []byte // the answer to it, in a fixed form
}

// probe calls the extension.
type probe struct {
	target    Target
	base      string
	http      *http.Client
	handlers  []*handler
	discovery []byte // the answer, in a fixed form
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
			TLSClientConfig: trust, TLSHandshakeTimeout: discoveryTimeout, DisableCompression: true, MaxIdleConnsPerHost: target.Parallel,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func (p *probe) close() { p.http.CloseIdleConnections() }

// run makes a check that may panic on an answer that nobody thought of.
func (p *probe) run(ctx context.Context, check func(context.Context) error) (r result) {
	start := time.Now()
	defer func() { r.took = time.Since(start) }()
	if err := ctx.Err(); err != nil {
		return result{err: skip("the checks were ended")}
	}
	return result{err: check(ctx)}
}

type result struct {
	err  error
	took time.Duration
}

// discover reads the handlers, for all that comes after.
func (p *probe) discover(response *runtimehooksv1.DiscoveryResponse) error {
	for _, h := range response.Handlers {
		group, version, _ := strings.Cut(h.RequestHook.APIVersion, "/")
		descriptor, known := p.target.Catalog.Get(hook.ID{Group: group, Version: version, Name: h.RequestHook.Hook})
		if !known {
			continue // reported by its own check
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
		p.handlers = append(p.handlers, &handler{name: h.Name, descriptor: descriptor, timeout: timeout, path: descriptor.ID.Path(h.Name), body: body})
	}
	return nil
}

// fixed brings JSON into one form, so that answers can be compared: objects have no order.
func fixed(data []byte) ([]byte, error) {
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}
