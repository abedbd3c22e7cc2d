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

// probe is a question that a container answers over HTTP. Its numbers mean what they do for a kubelet, but for
// leastTimeout.
type probe struct {
	// URL is asked every period; an answer that takes longer than timeout is none. threshold is how many failures in a row
	// count.
	URL             string
	period, timeout time.Duration
	threshold       int
}

// leastTimeout is for machines that run whole clusters: they are busy, and what answers late is not dead.
const leastTimeout = 5 * time.Second

// newProbe reads a probe of a container; nil if there is none, or it asks in another way.
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

// ask fails unless the answer is yes. As for a kubelet, it doesn't matter who vouches for the certificate.
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

// watch asks again and again, and tells what has changed: an error after as many failures as count, nil at the first
// success after that. It returns when ctx ends or tell says no. Without a probe there is nothing to tell.
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
