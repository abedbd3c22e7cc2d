package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestASpecNeedsItsBundles(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"kube", "bin/bundles/v1.35.4"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for file, version := range map[string]string{"PREVIOUS_VERSION": "v1.35.4\n", "OLDEST_VERSION": "v1.34.4\n"} {
		if err := os.WriteFile(filepath.Join(root, "kube", file), []byte(version), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		bundles []string
		want    string
	}{
		"a spec that needs no bundle":  {nil, ""},
		"a spec whose bundle is built": {[]string{"PREVIOUS_VERSION"}, ""},
		"a spec with a bundle that is not built": {
			[]string{"PREVIOUS_VERSION", "OLDEST_VERSION"}, "run kube/build v1.34.4 bin/bundles",
		},
		"a spec with an unknown bundle": {[]string{"NEWEST_VERSION"}, "NEWEST_VERSION"},
	} {
		err := bundled(root, []spec{{Name: "A", Bundles: c.bundles}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", name, err, c.want)
		}
	}
}
