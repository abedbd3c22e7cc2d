package clusterctl

import (
	"os"
	"path/filepath"
	"testing"

	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
)

func TestMoveLines(t *testing.T) {
	for want, c := range map[string]struct{ from, to upstream.Kubeconfig }{
		"capstan clusterctl move call-off -n blue --to-kubeconfig b": {to: upstream.Kubeconfig{Path: "b"}},
		"capstan clusterctl move call-off -n blue --kubeconfig 'my a' --kubeconfig-context x " +
			"--to-kubeconfig b --to-kubeconfig-context y": {
			upstream.Kubeconfig{Path: "my a", Context: "x"}, upstream.Kubeconfig{Path: "b", Context: "y"},
		},
	} {
		client := &Client{Kubeconfig: upstream.Kubeconfig{Path: "the plane's"}, named: c.from}
		if got := client.CallOffCommand(HandOver{Namespace: "blue", To: c.to}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	h := HandOver{Namespace: "blue", To: upstream.Kubeconfig{Path: "b"}}
	c := &Client{Kubeconfig: upstream.Kubeconfig{Path: "a"}}
	if got, want := c.MoveCommand(h), "clusterctl move -n blue --kubeconfig a --to-kubeconfig b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := DescribeCommand(h), "capstan clusterctl describe cluster NAME -n blue --kubeconfig b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestIsDirectory(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{dir: true, file: false, filepath.Join(dir, "none"): false} {
		if err := isDirectory(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestSaveAndRestoreNeedADirectory: without a directory, nothing is requested and nothing is paused.
func TestSaveAndRestoreNeedADirectory(t *testing.T) {
	c, none := &Client{}, filepath.Join(t.TempDir(), "none")
	if err := c.SaveClusters(t.Context(), "blue", none); err == nil {
		t.Error("clusters were saved to a directory that does not exist")
	}
	if err := c.RestoreClusters(t.Context(), "blue", none, upstream.Kubeconfig{}); err == nil {
		t.Error("clusters were restored from a directory that does not exist")
	}
}
