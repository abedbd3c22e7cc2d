package extension

import (
	"testing"

	"github.com/capstan-dev/capstan/extension/part/parttest"
	"github.com/capstan-dev/capstan/runtime/hooktest"
)

// The extension that we ship keeps every rule that can be seen from outside, for each of its handlers (RX-01 to RX-08, RX-21 to RX-23, RX-27, RX-28).
func TestExtensionConforms(t *testing.T) {
	handler, err := New(Options{Reader: parttest.NewWorld(2)})
	if err != nil {
		t.Fatal(err)
	}
	defer handler.Close()
	hooktest.StartHandler(t, handler).Conforms(t)
}
