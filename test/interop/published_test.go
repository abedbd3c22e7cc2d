package interop

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestOurServerWithThePublishedClient: an extension that is built with our server works with the client of Cluster
// API's own reconcilers. That client is internal to its module: see the command hack/peer (RX-03, RX-07, RX-11).
func TestOurServerWithThePublishedClient(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "run", "./hack/peer", "./runtime/server", "-run", "TestPublishedClient",
		"-count=1", "-v")
	cmd.Dir = "../.."
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestPublishedClient") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Attr("rule", "RX-11")
}
