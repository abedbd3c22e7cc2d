package backup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// etcd reads settings from its environment. The settings of a shell must not change how a snapshot is restored or
// verified, and etcd must not see the keys of a store.
func TestToolGetsNoSettingsFromTheEnvironment(t *testing.T) {
	t.Setenv("ETCD_CONFIG_FILE", "/etc/passwd")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	dir := t.TempDir()
	tool := Tool{Path: filepath.Join(dir, "capstan-kube")}
	if err := os.WriteFile(tool.Path, []byte("#!/bin/sh\nenv >> "+dir+"/seen\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := tool.Restore(t.Context(), "snapshot", "data", Identity{Name: "a", PeerURL: "https://a:2380"}); err != nil {
		t.Fatal(err)
	}
	_, _ = tool.Verify(t.Context(), "snapshot", dir) // the program exits before it answers
	seen, err := os.ReadFile(filepath.Join(dir, "seen"))
	if err != nil || strings.Count(string(seen), "PATH=") < 3 {
		t.Fatalf("the program was not run three times: %s, %v", seen, err)
	}
	for _, forbidden := range []string{"ETCD_", "AWS_"} {
		if strings.Contains(string(seen), forbidden) {
			t.Errorf("the program got %s: %s", forbidden, seen)
		}
	}
}
