package enroll

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/internal/enrolment"
)

// askTimeout bounds one request.
const askTimeout = 45 * time.Second

// asker sends requests to an enrolment server.
type asker struct {
	url  string
	http *http.Client
}

// newAsker returns an asker that connects only to the plane whose certificate authority has this hash.
func newAsker(server, hash string, certificate tls.Certificate) (*asker, error) {
	if err := enrolment.CheckPin(hash); err != nil {
		return nil, err
	}
	return connect(server, certificate, func(host string) *tls.Config { return enrolment.ClientConfig(host, hash) })
}

// connect returns an asker for a server; config returns the TLS configuration that authenticates it.
func connect(server string, certificate tls.Certificate, config func(host string) *tls.Config) (*asker, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, errors.New("the enrolment server must be a URL like https://192.0.2.1:7444")
	}
	known := config(u.Hostname())
	known.Certificates = []tls.Certificate{certificate}
	transport := &http.Transport{
		TLSClientConfig: known, TLSHandshakeTimeout: 15 * time.Second, ResponseHeaderTimeout: askTimeout,
		DisableKeepAlives: true,
	}
	return &asker{url: u.Scheme + "://" + u.Host, http: &http.Client{
		Transport: transport, Timeout: askTimeout,
		// A credential must not follow a redirect.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// ask sends one request to a path. A refusal by the plane is an *enrolment.Refusal. No error contains the credential.
func (a *asker) ask(ctx context.Context, path string, r any) (*enrolment.Answer, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := a.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reaching the plane: %w", err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, enrolment.BodyLimit))
	if err != nil {
		return nil, fmt.Errorf("reading the plane's answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		refusal := &enrolment.Refusal{}
		if json.Unmarshal(data, refusal) != nil || refusal.Message == "" {
			return nil, fmt.Errorf("the plane answers %s", response.Status)
		}
		return nil, refusal
	}
	answer := &enrolment.Answer{}
	if err := json.Unmarshal(data, answer); err != nil {
		return nil, errors.New("the plane's answer can't be parsed: use the agent that the plane offers")
	}
	return answer, nil
}

// askUntil repeats a request until it succeeds, waiting can't help, or ctx ends. It passes the reasons for waiting to
// the function report.
func (a *asker) askUntil(
	ctx context.Context, r enrolment.Request, report func(error),
) (answer *enrolment.Answer, err error) {
	pauses := backoff.Backoff{First: time.Second, Max: time.Minute, Spread: backoff.FleetSpread}
	for {
		answer, err = a.ask(ctx, enrolment.EnrollPath, r)
		if err == nil || !mayHelp(err) {
			return answer, err
		}
		if ctx.Err() != nil {
			return nil, err
		}
		report(err)
		if pauses.Wait(ctx) != nil {
			return nil, err
		}
	}
}

// mayHelp reports whether waiting may help.
func mayHelp(err error) bool {
	var refusal *enrolment.Refusal
	if errors.As(err, &refusal) {
		return refusal.Retry
	}
	return !errors.Is(err, enrolment.ErrPin)
}
