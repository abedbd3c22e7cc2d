//go:build linux

package attack

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// callLimit limits the time of one request.
const callLimit = 20 * time.Second

// bodyLimit limits how much of an answer is read, in bytes.
const bodyLimit = 1 << 20

// request is a request to the plane's API server. Path and body may contain {NAME} for each name in world.vars.
type request struct {
	verb, path string
	// body is JSON, or YAML for an apply.
	body string
	// kind is the content type of the body; the default depends on the verb.
	kind string
	// header contains additional headers, each in a line "Name: value".
	header string
}

// refusals are the status codes by which an API server refuses a request.
var refusals = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity}

// send sends a request as somebody and returns status and body.
func (w *world) send(ctx context.Context, who identity, r request) (int, string, error) {
	config, err := w.config(who)
	if err != nil {
		return 0, "", err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return 0, "", err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	verb := r.verb
	req, err := http.NewRequestWithContext(ctx, verb, w.server+w.fill(r.path), bytes.NewBufferString(w.fill(r.body)))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Accept", "application/json")
	if kind := r.contentType(); kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	for line := range strings.Lines(w.fill(r.header)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, bodyLimit))
	if strings.Contains(r.path, "watch=true") {
		err = nil // a watch lasts until the time limit
	}
	return resp.StatusCode, string(body), err
}

func (r request) contentType() string {
	switch {
	case r.kind != "":
		return r.kind
	case r.verb == http.MethodPatch:
		return "application/merge-patch+json"
	case r.body != "":
		return "application/json"
	}
	return ""
}

// ask sends a request. It returns nil after a success, a *refusal if the server refuses, and another error in all other
// cases.
func (w *world) ask(ctx context.Context, who identity, r request) error {
	status, body, err := w.send(ctx, who, r)
	if err != nil {
		return err
	}
	switch {
	case status >= 200 && status < 300:
		return nil
	case slices.Contains(refusals, status):
		return refused("%d %s", status, message(body))
	}
	return fmt.Errorf("%s %s as %s: %d %s", r.verb, w.fill(r.path), who, status, message(body))
}

// dry returns the dry-run form of a request.
func (r request) dry() request {
	if r.verb == http.MethodGet || strings.Contains(r.path, "/token") {
		return r
	}
	separator := "?"
	if strings.Contains(r.path, "?") {
		separator = "&"
	}
	r.path += separator + "dryRun=All"
	return r
}

// call returns an attempt that consists of one request. In the control, the rightful identity sends the same request.
func call(boundary string, who identity, mechanism string, rightful identity, r request) attempt {
	return callOr(boundary, who, mechanism, r, rightful, r)
}

// callOr returns an attempt that consists of one request. In the control, the rightful identity sends another request,
// which differs only in what is forbidden.
func callOr(boundary string, who identity, mechanism string, r request, rightful identity, right request) attempt {
	return attempt{
		boundary: boundary, who: who, mechanism: mechanism,
		try:     func(ctx context.Context, w *world) error { return w.ask(ctx, who, r.dry()) },
		control: func(ctx context.Context, w *world) error { return w.ask(ctx, rightful, right.dry()) },
	}
}

// message shortens the message of an API server's Status.
func message(body string) string {
	_, text, ok := strings.Cut(body, `"message":"`)
	if ok {
		text, _, _ = strings.Cut(text, `","`)
	} else {
		text = body
	}
	const most = 160
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.TrimSpace(text)
}
