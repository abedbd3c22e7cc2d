package trace_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
	"github.com/capstan-dev/capstan/runtime/trace"
)

// The span of a served call is a child of the caller's span and the parent of the handler's spans.
func TestServing(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	defer func() { _ = provider.Shutdown(t.Context()) }()
	var inside oteltrace.SpanContext
	extension, err := server.New(server.Options{Trace: trace.Serving(provider)},
		server.Handle(hook.BeforeClusterCreate, "gate",
			func(ctx context.Context, request *runtimehooksv1.BeforeClusterCreateRequest,
				_ *runtimehooksv1.BeforeClusterCreateResponse) error {
				inside = oteltrace.SpanContextFromContext(ctx)
				if request.Cluster.Name == "" {
					panic("there is no Cluster")
				}
				return nil
			}))
	if err != nil {
		t.Fatal(err)
	}
	const traceID, parentID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for body, want := range map[string]struct {
		answer string
		status codes.Code
	}{
		`{"cluster":{"metadata":{"name":"blue"}}}`: {"success", codes.Unset},
		`{"cluster":{}}`: {"panic", codes.Error},
	} {
		spans.Reset()
		r := httptest.NewRequest(http.MethodPost, hook.BeforeClusterCreate.ID().Path("gate"), strings.NewReader(body))
		r.Header.Set("Traceparent", "00-"+traceID+"-"+parentID+"-01")
		extension.ServeHTTP(httptest.NewRecorder(), r)
		ended := spans.Ended()
		if len(ended) != 1 {
			t.Fatalf("%s: %d spans", body, len(ended))
		}
		span := ended[0]
		attributes := attribute.NewSet(span.Attributes()...)
		answer, _ := attributes.Value(trace.AnswerKey)
		handler, _ := attributes.Value(trace.HandlerKey)
		if span.SpanContext().TraceID().String() != traceID || span.Parent().SpanID().String() != parentID ||
			inside.SpanID() != span.SpanContext().SpanID() ||
			answer.AsString() != want.answer || handler.AsString() != "gate" || span.Status().Code != want.status {
			t.Errorf("%s: span %+v of %s, %s, status %s", body, span.SpanContext(), handler.AsString(), answer.AsString(),
				span.Status().Code)
		}
	}
}
