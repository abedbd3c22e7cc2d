package clusterctl

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/hint"
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	there, gone := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "none")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stopped := func(context.Context) bool { return true }
	for name, c := range map[string]struct {
		named, plane string
		stopped      func(context.Context) bool
		offline      bool
		want, err    string
	}{
		"a named kubeconfig":                              {there, gone, nil, false, there, ""},
		"a named kubeconfig that does not exist":          {gone, there, nil, false, "", "looking for the kubeconfig"},
		"a named kubeconfig that does not exist, offline": {gone, there, nil, true, "", "looking for the kubeconfig"},
		"the plane":                    {"", there, nil, false, there, ""},
		"a plane that does not answer": {"", there, stopped, false, there, ""},
		"no plane":                     {"", gone, nil, false, "", "no management plane in the home"},
		"no plane, offline":            {"", gone, nil, true, gone, ""},
		"a plane, offline":             {"", there, nil, true, there, ""},
		"a stopped plane, offline":     {"", there, stopped, true, "", ""},
		"a named kubeconfig and a stopped plane, offline": {there, there, stopped, true, there, ""},
	} {
		t.Run(name, func(t *testing.T) {
			target := Target{Home: "the home", Plane: c.plane, Stopped: c.stopped}
			target.Kubeconfig = c.named
			got, err := target.Find(t.Context(), c.offline)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || got != c.want {
				t.Errorf("found %q, %v", got, err)
			}
		})
	}
}

// TestOpenAPlaneThatDoesNotAnswer: only this machine's plane gets the advice.
func TestOpenAPlaneThatDoesNotAnswer(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: u, user: {}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for named, want := range map[string]string{"": "run: capstan status", path: ""} {
		target := Target{Options: Options{Kubeconfig: named}, Plane: path}
		if _, err := target.Open(t.Context(), path); err == nil || hint.Of(err) != want {
			t.Errorf("opening %q: %v, with the advice %q", named, err, hint.Of(err))
		}
	}
}
