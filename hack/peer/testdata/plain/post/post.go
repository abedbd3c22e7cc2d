// Package post has the interface of runtime/internal/post, and leaves the work to net/http. It is overlaid on the tree
// only for measurements.
package post

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/runtime/internal/wire"
)

// MaxQuoted limits the body of an answer with a status other than 200, in bytes.
const MaxQuoted = 256

// ErrEnded is the error of an exchange that [Call.End] aborted.
var ErrEnded = errors.New("the exchange was aborted")

// Call lets another goroutine end an exchange.
type Call struct {
	mu     sync.Mutex
	ended  bool
	cancel context.CancelFunc
}

// End ends the exchange.
func (c *Call) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.cancel != nil {
		c.cancel()
	}
}

// Resent returns false, because net/http does not report whether it sent a request again.
func (c *Call) Resent() bool { return false }

// Cancels sets the function that ends the exchange, and reports whether the exchange may continue.
func (c *Call) Cancels(cancel context.CancelFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel = cancel
	return !c.ended
}

// Options of a Client.
type Options struct {
	Address     string
	Host        string
	TLS         *tls.Config
	Idle        int
	Open        int
	IdleTimeout time.Duration
	Dial        func(ctx context.Context, network, address string) (net.Conn, error)
}

// Request is what is sent.
type Request struct {
	Prefix, Target string
	Header         map[string]string
	Body           []byte
	Limit          int64
}

// Answer is what came back.
type Answer struct {
	Status int
	Body   []byte
}

// Release does nothing.
func (Answer) Release() {}

// Client posts to one server.
type Client struct {
	base string
	http *http.Client
}

// New returns a client.
func New(options Options) *Client {
	if options.Dial == nil {
		options.Dial = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // faster here than HTTP/2
	return &Client{base: "https://" + options.Host, http: &http.Client{
		Transport: &http.Transport{
			DialContext:            options.Dial,
			TLSClientConfig:        options.TLS,
			Protocols:              protocols,
			MaxIdleConnsPerHost:    options.Idle,
			MaxConnsPerHost:        options.Open,
			IdleConnTimeout:        options.IdleTimeout,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Do sends a request and reads the answer.
func (c *Client) Do(ctx context.Context, call *Call, deadline time.Time, request Request) (Answer, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if !call.Cancels(cancel) {
		return Answer{}, ErrEnded
	}
	sent, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+request.Prefix+request.Target,
		bytes.NewReader(request.Body))
	if err != nil {
		return Answer{}, err
	}
	sent.Header.Set("Content-Type", wire.ContentType)
	sent.Header.Set("Accept", wire.ContentType)
	for name, value := range request.Header {
		sent.Header.Set(name, value)
	}
	sent.Header["Idempotency-Key"] = []string{} // allows a retry; an empty header is not sent
	received, err := c.http.Do(sent)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = received.Body.Close() }()
	answer := Answer{Status: received.StatusCode}
	if answer.Status != http.StatusOK {
		answer.Body, _ = io.ReadAll(io.LimitReader(received.Body, MaxQuoted+1))
		return answer, nil
	}
	answer.Body, err = wire.Read(received.Body, request.Limit, received.ContentLength)
	return answer, err
}

// CloseIdle closes idle connections.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// Retire closes idle connections.
func (c *Client) Retire() { c.http.CloseIdleConnections() }
