// Package rest is the agent's client for the API server. It makes the few calls that the agent needs, and no others.
//
// It is this small because one agent runs on every host, even where a hundred hosts share a machine: a client with
// caches and all API types would need several times the memory. It needs these rights from the host's Role, each
// limited to names of the host itself:
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
	// bodyLimit bounds one response or watch event, in bytes: etcd rejects objects over 1.5 MiB.
	bodyLimit = 3 << 20
)

// Tokens supplies the bearer token of each call.
type Tokens interface {
	// Token returns the token to use now.
	Token() string
	// Reject reports that the server does not accept a token.
	Reject(token string)
}

// Client makes the calls of one host.
type Client struct {
	server, namespace, host string
	http                    *http.Client
	tokens                  Tokens
	agent                   string
}

// New returns a client for the host named in c. version is the agent's version, for the User-Agent header.
func New(c config.Config, tokens Tokens, version string) (*Client, error) {
	roots, err := c.Roots()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{
		Timeout: 10 * time.Second,
		// A watch can be silent for minutes; only the kernel notices that its server is gone.
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
		ForceAttemptHTTP2:     false, // for one watch and occasional calls, HTTP/1.1 needs less memory
	}
	return &Client{
		server: c.Server, namespace: c.Namespace, host: c.Host,
		http:   &http.Client{Transport: transport, CheckRedirect: noRedirect},
		tokens: tokens, agent: "capstan-agent/" + version,
	}, nil
}

// noRedirect refuses redirects: an API server never redirects these calls, and a token must not follow a redirect.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// StatusError is a response of the server other than success.
type StatusError struct {
	// Code is the HTTP status code.
	Code int
	// Reason and Message come from the server's Status object; they may be empty.
	Reason, Message string
}

// Error returns the code and the server's message.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("the API server answered %d", e.Code)
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// IsCode reports whether err is a response with this HTTP status code.
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

// call makes one call. It sends the value called in, and decodes the response into the value called out, both as JSON.
// Either value may be nil.
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

// send sends a request and returns the response if it is a success. If the server rejects the token and there is
// another one, the request is sent again with that one.
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
	_ = json.Unmarshal(data, &status) // if it is not JSON, the code says enough
	return nil, &StatusError{Code: response.StatusCode, Reason: status.Reason, Message: strings.TrimSpace(status.Message)}
}
