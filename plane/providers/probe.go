package providers

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/capstan-dev/capstan/internal/backoff"
)

// probe is an HTTP probe of a container. Its numbers mean the same as for a kubelet, except for leastTimeout.
type probe struct {
	// URL is requested every period; a response that takes longer than timeout is a failure. threshold is how many
	// consecutive failures make the probe fail.
	URL             string
	period, timeout time.Duration
	threshold       int
}

// leastTimeout allows for machines that run whole clusters: they are busy, and a late response does not mean that the
// process is dead.
const leastTimeout = 5 * time.Second

// newProbe returns a probe of a container; nil if there is none, or if it does not use HTTP.
func newProbe(c *corev1.Container, p *corev1.Probe) *probe {
	if p == nil || p.HTTPGet == nil {
		return nil
	}
	port := p.HTTPGet.Port.IntValue()
	for _, named := range c.Ports {
		if p.HTTPGet.Port.Type == intstr.String && named.Name == p.HTTPGet.Port.StrVal {
			port = int(named.ContainerPort)
		}
	}
	if port == 0 {
		return nil
	}
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(loopback, strconv.Itoa(port)), Path: p.HTTPGet.Path}
	if p.HTTPGet.Scheme == corev1.URISchemeHTTPS {
		u.Scheme = "https"
	}
	return &probe{
		URL: u.String(), threshold: int(cmp.Or(p.FailureThreshold, 3)),
		period:  time.Duration(cmp.Or(p.PeriodSeconds, 10)) * time.Second,
		timeout: max(time.Duration(p.TimeoutSeconds)*time.Second, leastTimeout),
	}
}

// ask sends one request and returns an error unless the probe succeeds. Like a kubelet, it does not verify the
// certificate.
func (p *probe) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, fmt.Errorf("no answer within %s", p.timeout))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL, nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("asking %s: %w", p.URL, cmp.Or(context.Cause(ctx), err))
	}
	answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode >= 400 {
		return fmt.Errorf("%s says %s", p.URL, answer.Status)
	}
	return nil
}

// watch repeats the probe and calls the function tell on each change: with an error once the threshold is reached, and
// with nil at the first success after that. It returns when ctx ends or tell returns false. Without a probe it returns
// at once.
func (p *probe) watch(ctx context.Context, tell func(error) bool) {
	if p == nil {
		return
	}
	failures := 0
	for backoff.Sleep(ctx, p.period) == nil {
		err := p.ask(ctx)
		before := failures
		if failures++; err == nil {
			failures = 0
		}
		changed := failures == p.threshold || (err == nil && before >= p.threshold)
		if ctx.Err() == nil && changed && !tell(err) {
			return
		}
	}
}
