package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/wire"
	"github.com/capstan-dev/capstan/runtime/openapi"
)

var handlerChecks = []check{
	{Check{
		Name: "answers", Rules: []string{"RX-03", "RX-05", "RX-07", "RX-08", "RX-44"},
		Doc:      "a good request is answered with HTTP status 200 and the response of the hook",
		Requires: []Requirement{RequiresHandler},
	}, checkAnswers},
	{Check{
		Name: "known-fields", Rules: []string{"RX-03", "RX-07"},
		Doc:      "the answer has no fields that the response does not have",
		Requires: []Requirement{RequiresHandler, RequiresAnswer},
	}, checkFields},
	{Check{
		Name: "as-described", Rules: []string{"RX-03"},
		Doc:      "the answer fits the OpenAPI description of the hook",
		Requires: []Requirement{RequiresHandler, RequiresAnswer},
	}, checkDescription},
	{Check{
		Name: "waits-honestly", Rules: []string{"RX-23", "LH-03"},
		Doc:      "only hooks that block have a retryAfterSeconds, and it is not negative",
		Requires: []Requirement{RequiresHandler, RequiresAnswer},
	}, checkRetry},
	contentCheck,
	{Check{
		Name: "quick", Rules: []string{"RX-21", "CL-01"},
		Doc:      "the answer comes within the timeout, and for patches within 200 ms",
		Requires: []Requirement{RequiresHandler},
	}, checkQuick},
	{Check{
		Name: "same-again", Rules: []string{"RX-25", "RX-27", "RX-28"},
		Doc:      "the same request gets the same answer",
		Requires: []Requirement{RequiresHandler, RequiresAnswer},
	}, checkSame},
	{Check{
		Name: "at-once", Rules: []string{"RX-22"},
		Doc:      "many calls at the same time are all answered the same",
		Requires: []Requirement{RequiresHandler, RequiresAnswer},
	}, checkConcurrent},
	{Check{
		Name: "post-only", Rules: []string{"RX-04"},
		Doc:      "another method than POST is refused",
		Requires: []Requirement{RequiresHandler},
	}, checkMethod},
	{Check{
		Name: "malformed", Rules: []string{"RX-22", "RX-44"},
		Doc:      "a body that is not the hook's request is refused",
		Requires: []Requirement{RequiresHandler},
	}, checkMalformed},
	{Check{
		Name: "wrong-version", Rules: []string{"RX-07"},
		Doc:      "a request of another kind or version is refused",
		Requires: []Requirement{RequiresHandler},
	}, checkWrongVersion},
	{Check{
		Name: "older-cluster", Rules: []string{"RX-07"},
		Doc:      "a Cluster of v1beta1 in a request is understood (D-30)",
		Requires: []Requirement{RequiresHandler, RequiresCluster},
	}, checkOlderCluster},
	{Check{
		Name: "oversized", Rules: []string{"RX-43"},
		Doc:      "a body above 20 MiB is refused, and the server stays alive",
		Requires: []Requirement{RequiresHandler},
	}, checkOversized},
}

func checkAnswers(ctx context.Context, p *probe, h *handler) error {
	a, response, err := p.call(ctx, h)
	if err != nil {
		return err
	}
	if h.expect, err = fixed(a.body); err != nil {
		return fmt.Errorf("the answer is not JSON: %w", err)
	}
	h.answer, h.response = a, response
	if response.GetStatus() == runtimehooksv1.ResponseStatusFailure && response.GetMessage() == "" {
		return errors.New("it answered Failure without a message (RX-14)")
	}
	if !strings.HasPrefix(a.contentType, wire.ContentType) {
		return warn("the Content-Type is %q: set %s (RX-05)", wire.Clip(a.contentType, 64), wire.ContentType)
	}
	var kind struct{ Kind, APIVersion string }
	if err := json.Unmarshal(a.body, &kind); err != nil || kind.Kind == "" || kind.APIVersion == "" {
		return warn("the answer has no kind or no apiVersion (RX-07)")
	}
	return nil
}

func checkFields(_ context.Context, _ *probe, h *handler) error {
	decoder := json.NewDecoder(bytes.NewReader(withoutNewer(h)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(h.descriptor.NewResponse()); err != nil {
		return warn("%v: callers do not see it", err)
	}
	return nil
}

// withoutNewer returns the answer without a field that Cluster API added after the release that we are built with.
func withoutNewer(h *handler) []byte {
	family := h.descriptor.ID.Family()
	if family != hook.CanUpdateMachine.ID().Family() && family != hook.CanUpdateMachineSet.ID().Family() {
		return h.answer.body
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(h.answer.body, &fields) != nil {
		return h.answer.body
	}
	delete(fields, "affectsAvailability") // added in v1.15; as-described checks its type
	data, err := json.Marshal(fields)
	if err != nil {
		return h.answer.body
	}
	return data
}

// checkDescription compares the bytes of the answer with the OpenAPI document, which also specifies what a Go type
// does not: which fields are required, and which values a string may have.
func checkDescription(_ context.Context, p *probe, h *handler) error {
	if p.document == nil {
		document, err := openapi.Of(p.target.Catalog, openapi.Options{})
		if err != nil {
			return err
		}
		p.document = document
	}
	misfits, err := p.document.ResponseMisfits(h.descriptor, h.answer.body)
	if err != nil {
		return err
	}
	var found problems
	for _, misfit := range misfits {
		switch {
		case misfit.Undescribed: // known-fields reports them
		case misfit.Path == "retryAfterSeconds" && misfit.Missing: // callers treat it as 0 (RX-23)
		default:
			found.add(errors.New(misfit.String()))
		}
	}
	return found.err()
}

func checkRetry(_ context.Context, _ *probe, h *handler) error {
	var answered struct {
		RetryAfterSeconds *int64 `json:"retryAfterSeconds"`
	}
	if err := json.Unmarshal(h.answer.body, &answered); err != nil {
		return err
	}
	switch retry := answered.RetryAfterSeconds; {
	case retry == nil || *retry == 0:
		return nil
	case !h.descriptor.CanWait:
		return fmt.Errorf("it answers with retryAfterSeconds %d, but hook %s does not block", *retry, h.descriptor.ID.Name)
	case *retry < 0:
		return fmt.Errorf("it answers with retryAfterSeconds %d", *retry)
	case *retry > 3600:
		return warn("it answers with retryAfterSeconds %d: callers may not ask again before, whatever changes (D-32)", *retry)
	}
	return nil
}

// quickLimit is how long an answer should take (RX-21).
func quickLimit(h *handler) time.Duration {
	if h.descriptor.ID.Family() == hook.GeneratePatches.ID().Family() {
		return 200 * time.Millisecond
	}
	return time.Second
}

func checkQuick(ctx context.Context, p *probe, h *handler) error {
	var took []time.Duration
	for range p.target.Repeat {
		a, _, err := p.call(ctx, h)
		if err != nil {
			return err
		}
		took = append(took, a.took)
	}
	slices.Sort(took)
	if middle := took[len(took)/2]; middle > quickLimit(h) {
		return warn("half of the answers take longer than %s: do long work in the background", quickLimit(h))
	}
	return nil
}

func checkSame(ctx context.Context, p *probe, h *handler) error {
	for range p.target.Repeat {
		if err := p.same(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

func (p *probe) same(ctx context.Context, h *handler) error {
	a, _, err := p.call(ctx, h)
	if err != nil {
		return err
	}
	now, err := fixed(a.body)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, h.expect) {
		return fmt.Errorf("the answer was %s and is %s: conditions contain it, and patches must not change by themselves",
			wire.Clip(string(h.expect), 300), wire.Clip(string(now), 300))
	}
	return nil
}

func checkConcurrent(ctx context.Context, p *probe, h *handler) error {
	errs := make([]error, p.target.Parallel)
	var calls sync.WaitGroup
	for i := range errs {
		calls.Go(func() { errs[i] = guard(func() error { return p.same(ctx, h) }) })
	}
	calls.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func checkMethod(ctx context.Context, p *probe, h *handler) error {
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		a, err := p.send(ctx, method, h.path, h.body, h.timeout)
		if err != nil {
			return err
		}
		if a.code == http.StatusOK {
			return warn("%s is answered like POST", method)
		}
	}
	return nil
}

func checkMalformed(ctx context.Context, p *probe, h *handler) error {
	cases := []struct {
		what string
		body []byte
	}{
		{"an empty body", nil},
		{"half of a request", h.body[:len(h.body)/2]},
		{"a list", []byte(`[]`)},
		{"a text", []byte(`"request"`)},
		{"a number where an object should be", []byte(`{"cluster":1,"items":1,"current":1,"desired":1,"settings":1}`)},
		{"bytes that are not text", []byte{'{', '"', 0xff, 0xfe, 0x00}},
		{"deep nesting", []byte(`{"settings":` + strings.Repeat("[", 20_000))},
	}
	var errs []error
	for _, c := range cases {
		a, err := p.send(ctx, http.MethodPost, h.path, c.body, h.timeout)
		if err == nil {
			err = a.refused(h)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.what, err))
		}
	}
	return errors.Join(errs...)
}

func checkWrongVersion(ctx context.Context, p *probe, h *handler) error {
	id := h.descriptor.ID
	for _, c := range []struct{ what, apiVersion, kind string }{
		{"another kind", id.APIVersion(), "Pod"},
		{"another version", id.Group + "/v0", h.descriptor.RequestKind},
	} {
		body, err := retype(h.body, c.apiVersion, c.kind)
		if err != nil {
			return err
		}
		a, err := p.send(ctx, http.MethodPost, h.path, body, h.timeout)
		if err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		if err := a.refused(h); err != nil {
			return warn("%s: %v. The handler may have read something else than what was sent", c.what, err)
		}
	}
	return nil
}

// retype replaces apiVersion and kind of a request.
func retype(body []byte, apiVersion, kind string) ([]byte, error) {
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	fields["apiVersion"], fields["kind"] = apiVersion, kind
	return json.Marshal(fields)
}

func checkOlderCluster(ctx context.Context, p *probe, h *handler) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(h.body, &fields); err != nil {
		return err
	}
	fields["cluster"] = json.RawMessage(
		`{"apiVersion":"cluster.x-k8s.io/v1beta1","kind":"Cluster","metadata":{"name":"sample","namespace":"default"},` +
			`"spec":{"topology":{"class":"sample","version":"v1.36.3","controlPlane":{"replicas":1}}},"status":{"failureDomains":{"a":{"controlPlane":true}}}}`)
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	a, err := p.send(ctx, http.MethodPost, h.path, body, h.timeout)
	if err != nil {
		return err
	}
	response := h.descriptor.NewResponse()
	if err := a.decode(h, response); err != nil {
		return warn("%v: releases up to v1.12 send it", err)
	}
	if response.GetStatus() == runtimehooksv1.ResponseStatusFailure &&
		strings.Contains(string(h.expect), `"status":"Success"`) {
		return warn("it answered Failure: %s: releases up to v1.12 send it", wire.Clip(response.GetMessage(), 200))
	}
	return nil
}

func checkOversized(ctx context.Context, p *probe, h *handler) error {
	padding := bytes.Repeat([]byte("x"), wire.MaxBody+1<<20)
	body := slices.Concat([]byte(`{"settings":{"padding":"`), padding, []byte(`"},`), bytes.TrimLeft(h.body, "{ "))
	a, err := p.send(ctx, http.MethodPost, h.path, body, h.timeout)
	if err == nil {
		if err := a.refused(h); err != nil {
			return warn("%v: bound what is read, or one caller exhausts the memory", err)
		}
	}
	// A server may also just close the connection; then it must still answer the next call.
	_, _, err = p.call(ctx, h)
	return err
}
