// Package conformance checks a running extension, in whatever language it is written. It calls the extension over
// HTTPS, both as Cluster API would and with invalid requests.
//
//	report, err := conformance.Run(ctx, conformance.Target{URL: "https://127.0.0.1:9443", CA: caPEM})
//	...
//	err = report.WriteText(os.Stdout)
//
// Each check names the rules of the contract that it covers, and its requirements: if these are not met, it is skipped.
// A check passes, fails, or warns. A warning means that careful callers survive the problem, or that a rule is only
// recommended. A check that panics counts as failed, with its stack in the report; the remaining checks still run.
//
// Requests are made by package sample, for a Cluster "sample" in namespace "default" that should not exist. If a
// handler has side effects, the checks cause them.
//
// Ids such as RX-05 are rules of the Runtime SDK's contract; RULES.md in the module's root explains them.
package conformance

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/registry"
	"github.com/capstan-dev/capstan/runtime/sample"
)

const (
	// DefaultRepeat is how often a request is repeated to check that the answers stay the same.
	DefaultRepeat = 5
	// DefaultParallel is how many calls are made at the same time.
	DefaultParallel = 16
	// discoveryTimeout is how long Cluster API waits for Discovery.
	discoveryTimeout = 10 * time.Second
)

// Target is the extension to check. URL is required.
type Target struct {
	// URL of the extension as in an ExtensionConfig: https, host and port, and a prefix if there is one.
	URL string
	// CA contains the CA certificates for the server's certificate, in PEM form. Default: the system's.
	CA []byte
	// Certificate is the client certificate for a server that requests one. Default: none.
	Certificate *tls.Certificate
	// ServerName is the name that the server's certificate must be for. Default: the host of the URL.
	ServerName string
	// Settings go into all requests.
	Settings map[string]string
	// Catalog of the hooks that can be called. Default: Cluster API's.
	Catalog *hook.Catalog
	// Request makes a request for a hook. Default: sample.Request.
	Request func(*hook.Descriptor) (runtime.Object, error)
	// Only lists the checks to run. The checks that others require, "discovery" and "answers", run in any case.
	// Default: all.
	Only []string
	// Repeat is how often a request is repeated. Default: DefaultRepeat.
	Repeat int
	// Parallel is how many calls are made at the same time. Default: DefaultParallel.
	Parallel int
	// Timeout bounds the total time of all checks. What is not done by then is left out, and the report says so. Default:
	// DefaultTimeout.
	Timeout time.Duration
}

func (t *Target) complete() error {
	if t.Catalog == nil {
		t.Catalog = hook.ClusterAPI()
	}
	if t.Request == nil {
		t.Request = func(d *hook.Descriptor) (runtime.Object, error) { return sample.Request(d, nil) }
	}
	t.Repeat, t.Parallel = cmp.Or(t.Repeat, DefaultRepeat), cmp.Or(t.Parallel, DefaultParallel)
	t.Timeout = cmp.Or(t.Timeout, DefaultTimeout)
	if t.Repeat < 2 || t.Parallel < 1 || t.Timeout < 0 {
		return errors.New("checking an extension: Repeat must be at least 2, Parallel at least 1, and Timeout not negative")
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
		return fmt.Errorf("checking an extension: its URL is %q: it must be https, a host, and at most a path: Cluster API "+
			"calls nothing else (RC-05)", t.URL)
	}
	return nil
}

// Run runs all checks within the target's Timeout and reports what they found. An extension that can't be reached
// yields a report, not an error. If ctx is done first, Run returns the results so far together with the error of ctx;
// if it returns any other error, nothing could be checked.
func Run(ctx context.Context, target Target) (*Report, error) {
	if err := target.complete(); err != nil {
		return nil, err
	}
	p, err := newProbe(target)
	if err != nil {
		return nil, err
	}
	defer p.close()
	bounded, cancel := context.WithTimeout(ctx, target.Timeout)
	defer cancel()
	report := &Report{URL: target.URL, Started: time.Now().UTC()}
	perform := func(checks []check, h *handler) {
		for _, c := range checks {
			if target.wants(c.Check) {
				report.add(c.Check, h, p.perform(bounded, c, h))
			}
		}
	}
	perform(serverChecks, nil)
	if p.excess > 0 {
		why := fmt.Sprintf("an ExtensionConfig lists at most %d handlers", registry.MaxHandlers)
		report.leave(why, p.excess, p.excessNames)
	}
	left := p.handlers
	for len(left) > 0 && bounded.Err() == nil {
		perform(handlerChecks, left[0])
		left[0].forget()
		if bounded.Err() == nil { // otherwise some of its checks were skipped
			left = left[1:]
		}
	}
	perform(lastChecks, nil)
	report.Took = time.Since(report.Started)
	switch {
	case ctx.Err() != nil:
		report.leave("the checks were ended", len(left), namesOf(left))
	case bounded.Err() != nil:
		report.leave(fmt.Sprintf("the time for all checks, %s, ran out", target.Timeout), len(left), namesOf(left))
	}
	return report, ctx.Err()
}

func (t *Target) wants(c Check) bool {
	return len(t.Only) == 0 || slices.Contains(t.Only, c.Name) || isRequired(c.Name)
}
