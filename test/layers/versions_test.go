package layers

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestModulesShareWhatTheyCompile checks that modules outside the workspace use the versions of the workspace or of the
// bundle. The go command compiles a package again for each combination of versions below it, so one module that differs
// (golang.org/x/sys, for example) costs the first build minutes.
func TestModulesShareWhatTheyCompile(t *testing.T) {
	workspace, bundle := versions(t, ".", "./..."), versions(t, "kube", "./cmd/...")
	for _, c := range []struct {
		dir, pattern string
		want         map[string]string
	}{
		{"hack/tools", "sigs.k8s.io/controller-tools/cmd/controller-gen", workspace},
		{"hack/clusterctl", "sigs.k8s.io/cluster-api/cmd/clusterctl", workspace},
		{"runtime", "./...", workspace},
		{"examples/local-plane", "./...", workspace},
		{"hack/kubetests", "k8s.io/kubernetes/test/e2e", bundle},
	} {
		t.Run(c.dir, func(t *testing.T) {
			got := versions(t, c.dir, c.pattern)
			for _, module := range slices.Sorted(maps.Keys(got)) {
				if v, ok := c.want[module]; ok && v != got[module] {
					t.Errorf("%s/go.mod selects %s %s, want %s", c.dir, module, got[module], v)
				}
			}
		})
	}
}

// versions returns the version of each module with a package on which the packages of a pattern depend. The directory .
// stands for the workspace.
func versions(t *testing.T, dir, pattern string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		"{{with .Module}}{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}", pattern)
	cmd.Dir = filepath.Join("../..", dir)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if dir != "." {
		cmd.Env = append(cmd.Env, "GOWORK=off")
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("listing the modules of %s in %s: %v", pattern, dir, err)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if module, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok && version != "" {
			found[module] = version
		}
	}
	if len(found) == 0 {
		t.Fatalf("%s in %s depends on no module", pattern, dir)
	}
	return found
}
