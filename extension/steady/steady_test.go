package steady_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/extension/steady"
)

// says is a reader that always fails with this error.
type says struct{ err error }

func (s says) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return s.err
}

func (s says) List(context.Context, client.ObjectList, ...client.ListOption) error { return s.err }

// The text of an error is constant, its cause can still be matched, and the log has the complete error.
func TestReader(t *testing.T) {
	resource := schema.GroupResource{Resource: "secrets"}
	for name, c := range map[string]struct {
		err    error
		want   string
		logged bool
	}{
		"no error": {nil, "", false},
		"a connection that breaks": {
			errors.New(`Get "https://admin:hunter2@10.0.0.1:6443": read tcp 10.0.0.9:40001: reset`),
			"the management cluster's API server could not be asked; the extension's log says why", true,
		},
		"a deadline": {
			fmt.Errorf("after 3.2 s: %w", context.DeadlineExceeded),
			"the management cluster's API server did not answer in time", true,
		},
		"a caller that gives up": {context.Canceled, "the call was abandoned", false},
		"an object that is gone": {apierrors.NewNotFound(resource, "a"), `secrets "a" not found`, false},
		"a right that is missing": {apierrors.NewForbidden(resource, "a", errors.New("no")),
			`secrets "a" is forbidden: no`, false},
		"an error of etcd behind the API server": {
			apierrors.NewInternalError(errors.New("etcd at 10.0.0.1: timeout")),
			"the management cluster's API server could not be asked; the extension's log says why", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			reader := steady.Reader(says{c.err}, slog.New(slog.NewTextHandler(&log, nil)))
			for what, err := range map[string]error{
				"Get":  reader.Get(t.Context(), client.ObjectKey{}, &corev1.Secret{}),
				"List": reader.List(t.Context(), &corev1.SecretList{}),
			} {
				switch {
				case c.err == nil && err != nil:
					t.Errorf("%s: %v", what, err)
				case c.err != nil && (err == nil || err.Error() != c.want || !errors.Is(err, c.err)):
					t.Errorf("%s: %v, want %q", what, err, c.want)
				}
			}
			if logged := strings.Contains(log.String(), "could not be read"); logged != c.logged {
				t.Errorf("the log has %q", log.String())
			}
			if name == "a connection that breaks" {
				t.Attr("rule", "RX-28")
			}
		})
	}
}
