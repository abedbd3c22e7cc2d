package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/capstan-dev/capstan/runtime/internal/post"
	"github.com/capstan-dev/capstan/runtime/internal/wire"
	"github.com/capstan-dev/capstan/runtime/registry"
)

// proxied posts through a proxy that the environment configures. It uses net/http, which supports proxies. Compared
// with the cost of a proxy, its overhead is small.
type proxied struct {
	base *url.URL
	http *http.Client
}

func newProxied(base, proxy *url.URL, trust *tls.Config, options transportOptions) *proxied {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &proxied{base: base, http: &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyURL(proxy),
			DialContext:            (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext,
			TLSClientConfig:        trust,
			TLSHandshakeTimeout:    registry.DefaultTimeout,
			Protocols:              protocols,
			MaxIdleConnsPerHost:    options.idle,
			MaxConnsPerHost:        openFactor * options.idle,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true, // a small body could decompress to a huge one
		},
		// A server must not redirect the call: no administrator has registered the new target (CL-21).
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Do implements poster.
func (p *proxied) Do(ctx context.Context, call *post.Call, deadline time.Time,
	request post.Request) (post.Answer, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if !call.Cancels(cancel) {
		return post.Answer{}, post.ErrEnded
	}
	target := p.base.Scheme + "://" + p.base.Host + request.Prefix + request.Target
	// A copy, because net/http may still read it after Do has returned.
	sent, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(bytes.Clone(request.Body)))
	if err != nil {
		return post.Answer{}, err
	}
	sent.Header.Set("Content-Type", wire.ContentType)
	sent.Header.Set("Accept", wire.ContentType)
	for name, value := range request.Header {
		sent.Header.Set(name, value)
	}
	// Handlers are idempotent (RX-25). So a call on a kept connection may be sent again on a new one if the server closes
	// the old one at that moment. If the list of Idempotency-Key is empty, the transport allows this but does not
	// send the header.
	sent.Header["Idempotency-Key"] = []string{}
	received, err := p.http.Do(sent)
	if err != nil {
		return post.Answer{}, err
	}
	defer func() { _ = received.Body.Close() }()
	answer := post.Answer{Status: received.StatusCode}
	if answer.Status != http.StatusOK {
		answer.Body, _ = io.ReadAll(io.LimitReader(received.Body, post.MaxQuoted+1)) // as much of it as can be read
		return answer, nil
	}
	answer.Body, err = wire.Read(received.Body, request.Limit, received.ContentLength)
	return answer, err
}

// CloseIdle implements poster.
func (p *proxied) CloseIdle() { p.http.CloseIdleConnections() }

// Retire implements poster.
func (p *proxied) Retire() { p.http.CloseIdleConnections() }
