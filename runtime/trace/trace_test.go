package trace_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/internal/testtls"
	"github.com/capstan-dev/capstan/runtime/trace"
)

// The span of a call is a child of the caller's span, and the extension gets its context.
func TestSpans(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		status codes.Code
		want   string
	}{
		"the handler blocks": {`{"status":"Success","retryAfterSeconds":7}`, codes.Unset, "Blocked 7"},
		"the call fails":     {`junk`, codes.Error, "Failure 0"},
	} {
		t.Run(name, func(t *testing.T) {
			spans := tracetest.NewSpanRecorder()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
			defer func() { _ = provider.Shutdown(t.Context()) }()
			heard := make(chan string, 1)
			ca := testtls.NewAuthority(t)
			s := ca.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				heard <- r.Header.Get("Traceparent")
				_, _ = io.WriteString(w, c.answer)
			}), nil)
			calls, err := client.New(client.Options{Trace: trace.With(provider)})
			if err != nil {
				t.Fatal(err)
			}
			defer calls.Close()
			config := runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "ext"}}
			config.Spec.ClientConfig = runtimev1.ClientConfig{URL: s.URL, CABundle: ca.PEM}
			config.Status.Handlers = []runtimev1.ExtensionHandler{{
				Name: "gate.ext", RequestHook: runtimev1.GroupVersionHook{
					APIVersion: hook.BeforeClusterCreate.ID().APIVersion(), Hook: "BeforeClusterCreate",
				},
			}}
			if err := calls.WarmUp(&runtimev1.ExtensionConfigList{Items: []runtimev1.ExtensionConfig{config}}); err != nil {
				t.Fatal(err)
			}
			ctx, parent := provider.Tracer("test").Start(t.Context(), "reconcile")
			_ = calls.CallAllExtensions(ctx, runtimehooksv1.BeforeClusterCreate, &clusterv1.Cluster{},
				&runtimehooksv1.BeforeClusterCreateRequest{},
				&runtimehooksv1.BeforeClusterCreateResponse{})
			parent.End()
			ended := spans.Ended()
			if len(ended) != 2 {
				t.Fatalf("%d spans", len(ended))
			}
			span := ended[0]
			if span.Parent().SpanID() != parent.SpanContext().SpanID() ||
				span.Name() != "hooks.runtime.cluster.x-k8s.io/v1alpha1/BeforeClusterCreate" {
				t.Errorf("span %s, parent %s", span.Name(), span.Parent().SpanID())
			}
			if got := <-heard; !strings.Contains(got, span.SpanContext().TraceID().String()) ||
				!strings.Contains(got, span.SpanContext().SpanID().String()) {
				t.Errorf("the extension got the traceparent %q", got)
			}
			attributes := attribute.NewSet(span.Attributes()...)
			answer, _ := attributes.Value(trace.AnswerKey)
			after, _ := attributes.Value(trace.RetryAfterKey)
			extension, _ := attributes.Value(trace.ExtensionKey)
			if got := answer.AsString() + " " + after.String(); got != c.want || extension.AsString() != "ext" ||
				span.Status().Code != c.status {
				t.Errorf("span says %s of %s, status %s; want %s, %s", got, extension.AsString(), span.Status().Code,
					c.want, c.status)
			}
			if !span.EndTime().After(span.StartTime()) {
				t.Errorf("the span lasts from %s to %s", span.StartTime(), span.EndTime())
			}
		})
	}
}
