package docs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestVersionsAreThoseOfTheCode compares docs/versions.md with the files that define the versions.
func TestVersionsAreThoseOfTheCode(t *testing.T) {
	page := read(t, "docs/versions.md")
	want := func(row string) {
		t.Helper()
		if !strings.Contains(page, row) {
			t.Errorf("docs/versions.md lacks the row %s", row)
		}
	}
	one := func(file, pattern string) string {
		t.Helper()
		m := regexp.MustCompile(pattern).FindStringSubmatch(read(t, file))
		if m == nil {
			t.Fatalf("%s has no match for %s", file, pattern)
		}
		return m[1]
	}
	kubernetes := func(file string) string { return one("kube/"+file, `^(v\S+)\s*$`) }

	want("| Cluster API, built into the plane and `capstan clusterctl` | " +
		one("go.mod", `(?m)^\tsigs\.k8s\.io/cluster-api (\S+)`) + " |")
	want("| Kubernetes of the management plane, and of clusters unless you name another | " +
		kubernetes("DEFAULT_VERSION") + " |")
	want("| Older Kubernetes that local hosts can run: `make kube-previous` | " + kubernetes("PREVIOUS_VERSION") + " |")
	want("| Older Kubernetes that local hosts can run: `make kube-oldest` | " + kubernetes("OLDEST_VERSION") + " |")
	want("| Client libraries of Kubernetes | " + one("go.mod", `(?m)^\tk8s\.io/client-go (\S+)`) + " |")
	want("| Go, at least | " + one("go.mod", `(?m)^go (\S+)`) + " |")

	series := regexp.MustCompile(`\{major: (\d+), minor: (\d+), contract: (\S+)\}`)
	all := series.FindAllStringSubmatch(read(t, "release/metadata.yaml"), -1)
	for _, s := range all {
		want(fmt.Sprintf("| v%s.%s | %s |", s[1], s[2], s[3]))
	}
	if rows := regexp.MustCompile(`(?m)^\| v\d+\.\d+ \|`).FindAllString(page, -1); len(all) == 0 || len(rows) != len(all) {
		t.Errorf("docs/versions.md has %d release series, but release/metadata.yaml has %d", len(rows), len(all))
	}
	versions, err := filepath.Glob(filepath.Join(root, "api/v*"))
	if err != nil || len(versions) == 0 {
		t.Fatal(versions, err)
	}
	for _, v := range versions {
		want("| `infrastructure.capstan.dev/" + filepath.Base(v) + "` |")
	}
}

// TestModulesAreInTheVersions: docs/versions.md names the modules of the workspace.
func TestModulesAreInTheVersions(t *testing.T) {
	page := read(t, "docs/versions.md")
	name := regexp.MustCompile(`(?m)^module (\S+)`)
	uses := regexp.MustCompile(`(?m)^\t(\./\S*|\.)$`).FindAllStringSubmatch(read(t, "go.work"), -1)
	if len(uses) < 4 {
		t.Fatalf("go.work uses %d modules: the pattern no longer matches", len(uses))
	}
	for _, use := range uses {
		m := name.FindStringSubmatch(read(t, filepath.Join(use[1], "go.mod")))
		if m == nil || !strings.Contains(page, "| `"+m[1]+"` |") {
			t.Errorf("docs/versions.md lacks the module in %s", use[1])
		}
	}
}
