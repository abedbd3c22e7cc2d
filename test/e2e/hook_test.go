package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHooksAreCalledByHand: the plane's extension listens only in the dock. The commands list its handlers and call
// them from outside, and nothing of the connection remains.
func TestHooksAreCalledByHand(t *testing.T) {
	eventually(t, "the extension is registered", func() error {
		if out := must(t, "hook", "list"); !strings.Contains(out, "capacity.capstan") {
			return fmt.Errorf("the hooks are\n%s", out)
		}
		return nil
	})
	if out := must(t, "hook", "call", "AfterClusterUpgrade", "-o", "json"); !strings.Contains(out, `"answer": "Success"`) {
		t.Errorf("the answer is not a success: %s", out)
	}
	// The handler fails because the Cluster in the sample request names a ClusterClass that does not exist.
	mustFail(t, "1 of 1 handlers of hook BeforeClusterCreate failed", "hook", "call", "BeforeClusterCreate")
	mustFail(t, "no extension has a handler of hook UpdateMachine", "hook", "call", "UpdateMachine")
	state, err := os.ReadFile(filepath.Join(homeDir, "dock", "state.json"))
	if err != nil || strings.Contains(string(state), `"c-capstan-`) {
		t.Errorf("a relay is left behind: %s, %v", state, err)
	}
}
