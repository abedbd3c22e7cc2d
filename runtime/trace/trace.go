// Package trace makes OpenTelemetry spans for calls to runtime extensions, for [client.Options.Trace]:
//
//	calls, err := client.New(client.Options{Trace: trace.With(otel.GetTracerProvider()), ...})
//
// Each call gets a span. Its parent is the span in the caller's context, and the extension receives the new span's
// context in the header "traceparent" (W3C Trace Context). Without this package, the client does not depend on tracing
// and sends no such header.
package trace

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/capstan-dev/capstan/runtime/record"
)

// Name of the tracer.
const Name = "github.com/capstan-dev/capstan/runtime"

// Keys of a span's attributes.
const (
	HookKey       = attribute.Key("runtime.hook")
	ExtensionKey  = attribute.Key("runtime.extension")
	HandlerKey    = attribute.Key("runtime.handler")
	AnswerKey     = attribute.Key("runtime.answer")
	RetryAfterKey = attribute.Key("runtime.retry_after_seconds")
	NotAskedKey   = attribute.Key("runtime.not_asked")
)

// With returns a [client.Options.Trace] that makes spans with this provider. A span's status is Error if the call
// failed, whatever its failure policy.
func With(provider oteltrace.TracerProvider) func(context.Context, record.Call) (map[string]string, func(record.Call)) {
	tracer := provider.Tracer(Name)
	return func(ctx context.Context, call record.Call) (map[string]string, func(record.Call)) {
		ctx, span := tracer.Start(ctx, call.Hook,
			oteltrace.WithSpanKind(oteltrace.SpanKindClient),
			oteltrace.WithTimestamp(call.Time),
			oteltrace.WithAttributes(HookKey.String(call.Hook), ExtensionKey.String(call.Extension),
				HandlerKey.String(call.Handler)))
		header := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, header)
		return header, func(call record.Call) {
			span.SetAttributes(AnswerKey.String(string(call.Answer)), RetryAfterKey.Float64(call.RetryAfter.Seconds()),
				NotAskedKey.Bool(call.NotAsked))
			if call.Err != nil {
				span.SetStatus(codes.Error, call.Err.Error())
			}
			span.End(oteltrace.WithTimestamp(call.Time.Add(call.Duration)))
		}
	}
}
