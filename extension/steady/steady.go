// Package steady reads the management cluster and returns errors that may end up in conditions. The same failure has
// the same text each time. No text comes from a connection, whose errors contain addresses, ports, times and secret
// parts of URLs (rule RX-28 of the Runtime SDK contract). The log has the complete error.
package steady

import (
	"context"
	"errors"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reader wraps a reader. It keeps answers of the API server itself, such as that an object does not exist or a right is
// missing, because their wording never changes.
func Reader(reader client.Reader, log *slog.Logger) client.Reader {
	return steady{reader: reader, log: log}
}

type steady struct {
	reader client.Reader
	log    *slog.Logger
}

// Get implements client.Reader.
func (s steady) Get(
	ctx context.Context,
	key client.ObjectKey,
	object client.Object,
	options ...client.GetOption,
) error {
	return s.settle(ctx, s.reader.Get(ctx, key, object, options...))
}

// List implements client.Reader.
func (s steady) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return s.settle(ctx, s.reader.List(ctx, list, options...))
}

// Failure is an error of the connection to the management cluster, with a constant text. It unwraps to the complete
// error.
type Failure struct {
	text  string
	cause error
}

func (f *Failure) Error() string { return f.text }

func (f *Failure) Unwrap() error { return f.cause }

func (s steady) settle(ctx context.Context, err error) error {
	switch {
	case err == nil, isAnswer(err):
		return err
	case errors.Is(err, context.Canceled):
		return &Failure{"the call was abandoned", err}
	}
	s.log.WarnContext(ctx, "The management cluster could not be read", "error", err)
	if errors.Is(err, context.DeadlineExceeded) {
		return &Failure{"the management cluster's API server did not answer in time", err}
	}
	return &Failure{"the management cluster's API server could not be asked; the extension's log says why", err}
}

// isAnswer reports whether the API server refused in words that never change. Its other answers may quote errors of
// etcd or of a webhook.
func isAnswer(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) ||
		apierrors.IsResourceExpired(err)
}
