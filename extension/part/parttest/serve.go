// Package parttest helps to test parts of the extension without a cluster: [Serve] serves parts over TLS, and a [World]
// is the management cluster that they read.
package parttest

import (
	"log/slog"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/extension/part"
	"github.com/capstan-dev/capstan/runtime/hooktest"
)

// Noon returns noon on a fixed Saturday.
func Noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// Serve serves parts with these settings in the ExtensionConfig, and closes them at the end of the test.
func Serve(t testing.TB, settings map[string]string, parts ...part.Part) *hooktest.Extension {
	t.Helper()
	t.Cleanup(func() { part.Close(parts...) })
	handlers, err := part.Handlers(slog.New(slog.DiscardHandler), parts...)
	if err != nil {
		t.Fatal(err)
	}
	return hooktest.StartWith(t, handlers, hooktest.Settings(settings))
}
