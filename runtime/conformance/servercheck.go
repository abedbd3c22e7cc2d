package conformance

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/wire"
	"github.com/capstan-dev/capstan/runtime/registry"
)

var serverChecks = []check{
	{Check{
		Name: "https", Rules: []string{"RX-01", "RX-29", "RX-40"},
		Doc: "the server speaks TLS 1.2 or later, with a certificate of the CA for its host, and nothing without TLS",
	}, checkTLS},
	{Check{
		Name: "discovery", Rules: []string{"RX-02", "RX-12", "RX-13", "RX-14", "RX-15"},
		Doc: "Discovery is answered with status Success",
	}, checkDiscovery},
	{Check{
		Name: "discovery-entries", Rules: []string{"RX-16", "RX-18", "RX-19", "RX-20", "CL-02"},
		Doc: "each handler has a unique DNS label as its name, a timeout of 0 to 30 seconds, a valid failure " +
			"policy",
		Requires: []Requirement{RequiresDiscovery},
	}, checkEntries},
	{Check{
		Name: "discovery-known", Rules: []string{"RX-17"},
		Doc:      "each handler serves an existing hook",
		Requires: []Requirement{RequiresDiscovery},
	}, checkKnown},
	{Check{
		Name: "discovery-stable", Rules: []string{"RX-27"},
		Doc:      "Discovery returns the same again",
		Requires: []Requirement{RequiresDiscovery},
	}, checkDiscoveryStable},
	{Check{
		Name: "unknown-path", Rules: []string{"RX-06"},
		Doc: "a path that does not exist is answered with 404",
	}, checkUnknownPath},
}

var lastChecks = []check{
	{Check{
		Name: "survives", Rules: []string{"RX-22", "RX-24"},
		Doc:      "after all of this, Discovery returns the same as before",
		Requires: []Requirement{RequiresDiscovery},
	}, checkSurvives},
}

func discoveryPath() string { return hook.Discovery.ID().Path("") }

const discoveryBody = `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"DiscoveryRequest"}`

// checkTLS checks only the transport.
func checkTLS(ctx context.Context, p *probe, _ *handler) error {
	a, err := p.send(ctx, http.MethodPost, discoveryPath(), []byte(discoveryBody), discoveryTimeout)
	if err != nil {
		return err
	}
	_ = a // the next check looks at its content
	base, err := url.Parse(p.base)
	if err != nil {
		return err
	}
	address := base.Host
	if base.Port() == "" {
		address = net.JoinHostPort(base.Hostname(), "443")
	}
	dialer := &tls.Dialer{
		Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
	} //nolint:gosec // It must be refused.
	short, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	if conn, err := dialer.DialContext(short, "tcp", address); err == nil {
		return errors.Join(errors.New("it speaks TLS 1.1 or older"), conn.Close())
	}
	plain, err := http.NewRequestWithContext(short, http.MethodPost, "http://"+address+base.Path+discoveryPath(),
		strings.NewReader(discoveryBody))
	if err != nil {
		return err
	}
	if response, err := p.http.Do(plain); err == nil {
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode == http.StatusOK {
			return errors.New("it answers hooks without TLS on the same port")
		}
	}
	return nil
}

func checkDiscovery(ctx context.Context, p *probe, _ *handler) error {
	a, response, err := p.askDiscovery(ctx)
	if err != nil {
		return err
	}
	if p.discovery, err = fixed(a.body); err != nil {
		return fmt.Errorf("the answer is not JSON: %w", err)
	}
	p.found = response
	if len(response.Handlers) == 0 {
		return warn("it has no handlers")
	}
	if err := p.discover(response); err != nil {
		return err
	}
	if a.contentType != "" && !strings.HasPrefix(a.contentType, wire.ContentType) {
		return warn("the Content-Type is %q: set %s (RX-05)", wire.Clip(a.contentType, 64), wire.ContentType)
	}
	return nil
}

func (p *probe) askDiscovery(ctx context.Context) (answer, *runtimehooksv1.DiscoveryResponse, error) {
	discovery := hook.Discovery.Descriptor()
	a, err := p.send(ctx, http.MethodPost, discoveryPath(), []byte(discoveryBody), discoveryTimeout)
	if err != nil {
		return a, nil, err
	}
	response := &runtimehooksv1.DiscoveryResponse{}
	if err := a.decode(&handler{descriptor: discovery}, response); err != nil {
		return a, nil, err
	}
	if response.Status == runtimehooksv1.ResponseStatusFailure {
		if response.Message == "" {
			return a, nil, errors.New("it answered Failure without a message (RX-14)")
		}
		return a, nil, fmt.Errorf("it answered Failure: %s", wire.Clip(response.Message, 200))
	}
	return a, response, nil
}

func checkEntries(_ context.Context, p *probe, _ *handler) error {
	names := map[string]bool{}
	var found problems
	if n := len(p.found.Handlers); n > registry.MaxHandlers {
		found.add(fmt.Errorf("it has %d handlers: an ExtensionConfig lists at most %d", n, registry.MaxHandlers))
	}
	slow := ""
	for _, h := range p.found.Handlers {
		fail := func(format string, args ...any) {
			found.add(fmt.Errorf("handler %q: %s", wire.Clip(h.Name, 64), fmt.Sprintf(format, args...)))
		}
		if problems := validation.IsDNS1123Label(h.Name); len(problems) > 0 {
			fail("the name is not valid: %s", problems[0])
		}
		if names[h.Name] {
			fail("another one has the same name")
		}
		names[h.Name] = true
		if h.TimeoutSeconds != nil {
			timeout := time.Duration(*h.TimeoutSeconds) * time.Second
			if timeout < 0 || timeout > registry.MaxTimeout {
				fail("timeoutSeconds is %d: it must be 0 to 30", *h.TimeoutSeconds)
			} else if timeout > registry.DefaultTimeout {
				slow = h.Name
			}
		}
		if policy := h.FailurePolicy; policy != nil && *policy != runtimehooksv1.FailurePolicyFail &&
			*policy != runtimehooksv1.FailurePolicyIgnore {
			fail("failurePolicy is %q: it must be Fail or Ignore", wire.Clip(string(*policy), 64))
		}
	}
	if err := found.err(); err != nil {
		return err
	}
	if slow != "" {
		return warn("handler %q asks for more than 10 seconds: callers wait that long, do long work in the background (D-24)",
			slow)
	}
	return nil
}

func checkKnown(_ context.Context, p *probe, _ *handler) error {
	var unknown []string
	more := 0
	for _, h := range p.found.Handlers {
		group, version, _ := strings.Cut(h.RequestHook.APIVersion, "/")
		if _, known := p.target.Catalog.Get(hook.ID{Group: group, Version: version, Name: h.RequestHook.Hook}); !known {
			if len(unknown) == maxProblems {
				more++
				continue
			}
			unknown = append(unknown, fmt.Sprintf("%s (%s/%s)", wire.Clip(h.Name, 64),
				wire.Clip(h.RequestHook.APIVersion, 128), wire.Clip(h.RequestHook.Hook, 64)))
		}
	}
	if more > 0 {
		unknown = append(unknown, fmt.Sprintf("and %d more", more))
	}
	if len(unknown) > 0 {
		return warn("these are not in the catalog: %s. Cluster API rejects the whole extension if it does not know one of "+
			"its hooks", strings.Join(unknown, ", "))
	}
	return nil
}

func checkDiscoveryStable(ctx context.Context, p *probe, _ *handler) error {
	for range p.target.Repeat {
		if err := p.sameDiscovery(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *probe) sameDiscovery(ctx context.Context) error {
	a, _, err := p.askDiscovery(ctx)
	if err != nil {
		return err
	}
	if now, err := fixed(a.body); err != nil || !bytes.Equal(now, p.discovery) {
		return errors.New("it returns another answer: the list is written to a status, where a changing order looks like " +
			"a change")
	}
	return nil
}

func checkUnknownPath(ctx context.Context, p *probe, _ *handler) error {
	a, err := p.send(ctx, http.MethodPost, discoveryPath()+"/there-is-no-such-handler", []byte(discoveryBody),
		discoveryTimeout)
	if err != nil {
		return err
	}
	if a.code != http.StatusNotFound {
		return fmt.Errorf("it is answered with the HTTP status %d", a.code)
	}
	return nil
}

func checkSurvives(ctx context.Context, p *probe, _ *handler) error {
	return p.sameDiscovery(ctx)
}
