// Package rest is the agent's client of the API server: the few calls that the agent makes, and nothing else.
//
// It is this small because one agent runs on every host, also where a hundred hosts share a machine: a client with
// caches and all API types would cost several times the memory. What it needs from the host's Role, each limited to
// names of the host itself:
//
//	capstanhosts           list, watch   (by field selector metadata.name)
//	capstanhosts/status    patch
//	secrets                get           NAME-bootstrap, NAME-handover
//	leases                 get, update
//	serviceaccounts/token  create        host-NAME
package rest

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/agent/config"
)

const (
	// callTimeout bounds one call that is not a watch.
	callTimeout = 15 * time.Second
	// bodyLimit bounds what is read of one answer or watch event, in bytes: etcd refuses objects of more than 1.5 MiB.
	bodyLimit = 3 << 20
)

// Tokens is where the bearer token of each call comes from.
type Tokens interface {
	// Token returns the token to use now.
	Token() string
	// Reject is told that the server does not accept a token.
	Reject(token string)
}

// Client makes the calls of one host.
type Client struct {
	server, namespace, host string
	http                    *http.Client
	tokens                  Tokens
	agent                   string
}

// New returns a client for the host that c names. version is the agent's, for the User-Agent header.
func New(c config.Config, tokens Tokens, version string) (*Client, error) {
	roots, err := c.Roots()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{
		Timeout: 10 * time.Second,
		// A watch is silent for minutes: only the kernel can tell that its server is gone.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 4},
	}
	transport := &http.Transport{
		DialContext:           dialer.DialContext,
		TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: callTimeout,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConns:          4,
		MaxConnsPerHost:       8,
		ForceAttemptHTTP2:     false, // one watch and a call now and then: HTTP/1.1 needs less memory
	}
	return &Client{
		server: c.Server, namespace: c.Namespace, host: c.Host,
		http:   &http.Client{Transport: transport, CheckRedirect: noRedirect},
		tokens: tokens, agent: "capstan-agent/" + version,
	}, nil
}

// noRedirect: an API server never redirects these calls, and a token must not follow one.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// StatusError is an answer of the server that is not a success.
type StatusError struct {
	// Code is the HTTP status code.
	Code int
	// Reason and Message are those of the server's Status object; they may be empty.
	Reason, Message string
}

// Error has the code and the server's message.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("the API server answered %d", e.Code)
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// IsCode reports whether err is an answer with the given HTTP status code.
func IsCode(err error, code int) bool {
	var status *StatusError
	return errors.As(err, &status) && status.Code == code
}

// namespaced returns the path of an object or, with an empty name, of a collection in the host's namespace.
func (c *Client) namespaced(prefix, resource, name string) string {
	path := prefix + "/namespaces/" + c.namespace + "/" + resource
	if name != "" {
		path += "/" + name
	}
	return path
}

// call makes one call; in (may be nil) is sent and out (may be nil) filled as JSON.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, contentType string,
	in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	response, err := c.send(ctx, method, path, query, contentType, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, bodyLimit))
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}

// send sends a request and returns the response if it is a success. If the token is not accepted and there is another
// one, that is tried.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, contentType string,
	body []byte) (*http.Response, error) {
	token := c.tokens.Token()
	response, err := c.sendAs(ctx, token, method, path, query, contentType, body)
	if IsCode(err, http.StatusUnauthorized) {
		c.tokens.Reject(token)
		if other := c.tokens.Token(); other != token {
			return c.sendAs(ctx, other, method, path, query, contentType, body)
		}
	}
	return response, err
}

func (c *Client) sendAs(ctx context.Context, token, method, path string, query url.Values, contentType string,
	body []byte) (*http.Response, error) {
	target := c.server + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", c.agent)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 200 && response.StatusCode <= 299 {
		return response, nil
	}
	defer response.Body.Close()
	var status struct{ Reason, Message string }
	data, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	_ = json.Unmarshal(data, &status) // not JSON: the code says enough
	return nil, &StatusError{Code: response.StatusCode, Reason: status.Reason, Message: strings.TrimSpace(status.Message)}
}
