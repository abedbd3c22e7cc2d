package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/internal/wire"
)

// answer is the server's answer.
type answer struct {
	code        int
	contentType string
	body        []byte
	took        time.Duration
}

// send sends a body. If there is no answer, the error's text is stable.
func (p *probe) send(ctx context.Context, method, path string, body []byte, timeout time.Duration) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, p.base+path+"?timeout="+timeout.String(),
		bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Content-Type", wire.ContentType)
	request.Header.Set("Accept", wire.ContentType)
	// Like Cluster API's callers: a call on a kept connection is sent again on a new one if the server closes the old one
	// at that moment.
	request.Header["Idempotency-Key"] = []string{}
	start := time.Now()
	response, err := p.http.Do(request)
	if err != nil {
		return answer{}, noAnswer(ctx, err, timeout)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := wire.Read(response.Body, wire.MaxBody, response.ContentLength)
	if err != nil {
		return answer{}, noAnswer(ctx, err, timeout)
	}
	return answer{
		code: response.StatusCode, contentType: response.Header.Get("Content-Type"), body: data, took: time.Since(start),
	}, nil
}

func noAnswer(ctx context.Context, err error, timeout time.Duration) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("there was no answer within %s", timeout)
	}
	return fmt.Errorf("there was no answer: %w", err)
}

// call sends a handler's valid request and decodes the answer.
func (p *probe) call(ctx context.Context, h *handler) (answer, runtimehooksv1.ResponseObject, error) {
	a, err := p.send(ctx, http.MethodPost, h.path, h.body, h.timeout)
	if err != nil {
		return a, nil, err
	}
	response := h.descriptor.NewResponse()
	return a, response, a.decode(h, response)
}

// decode checks what must hold for every answer (RX-05, RX-07, RX-44).
func (a answer) decode(h *handler, response runtimehooksv1.ResponseObject) error {
	if a.code != http.StatusOK {
		return fmt.Errorf("it answered with the HTTP status %d instead of 200: %q", a.code,
			wire.Clip(string(bytes.ToValidUTF8(a.body, nil)), 200))
	}
	if err := wire.Decode(a.body, response, h.descriptor.ID.APIVersion(), h.descriptor.ResponseKind); err != nil {
		return err
	}
	switch response.GetStatus() {
	case runtimehooksv1.ResponseStatusSuccess, runtimehooksv1.ResponseStatusFailure:
		return nil
	case "":
		return errors.New("the answer has no status: it must be Success or Failure")
	}
	return fmt.Errorf("the answer has the status %q: it must be Success or Failure",
		wire.Clip(string(response.GetStatus()), 64))
}

// refused checks that invalid input was rejected, with status Failure or with an HTTP error status.
func (a answer) refused(h *handler) error {
	switch {
	case a.code >= 400 && a.code < 500:
		return nil
	case a.code != http.StatusOK:
		return fmt.Errorf("it answered with the HTTP status %d: say what is wrong with status Failure, or with a status "+
			"from 400 to 499", a.code)
	}
	response := h.descriptor.NewResponse()
	if err := a.decode(h, response); err != nil {
		return err
	}
	if response.GetStatus() == runtimehooksv1.ResponseStatusSuccess {
		return errors.New("it answered Success")
	}
	if response.GetMessage() == "" {
		return errors.New("it answered Failure without a message")
	}
	return nil
}
