// Package long skips tests that take too long for make test.
package long

import (
	"os"
	"testing"
)

// Enabled reports whether long tests are enabled: make test-long sets CAPSTAN_TEST_LONG.
func Enabled() bool { return os.Getenv("CAPSTAN_TEST_LONG") != "" }

// Need skips a test unless long tests are enabled.
func Need(t testing.TB) {
	t.Helper()
	if !Enabled() {
		t.Skip("make test-long runs this test")
	}
}
