package trace

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/capstan-dev/capstan/runtime/server"
)

// Serving returns a [server.Options.Trace] that makes spans with this provider. Each call gets a span. Its parent is
// the caller's span, which the header "traceparent" identifies. The span's status is Error unless the handler succeeds
// or asks the caller to wait.
func Serving(provider oteltrace.TracerProvider) server.Tracer {
	tracer := provider.Tracer(Name)
	return func(ctx context.Context, call server.Call) (context.Context, func(string)) {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(call.Header))
		ctx, span := tracer.Start(ctx, call.Hook.String(), oteltrace.WithSpanKind(oteltrace.SpanKindServer),
			oteltrace.WithAttributes(HookKey.String(call.Hook.String()), HandlerKey.String(call.Handler)))
		return ctx, func(answer string) {
			span.SetAttributes(AnswerKey.String(answer))
			if answer != "success" && answer != "wait" {
				span.SetStatus(codes.Error, answer)
			}
			span.End()
		}
	}
}
