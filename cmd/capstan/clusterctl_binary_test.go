package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/capstan-dev/capstan/clusterctl"
)

func TestCompleteBinary(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	request := clusterctl.Request{clusterctlv1.InfrastructureProviderType: {"docker:v1.0.0", "aws"}, clusterctlv1.AddonProviderType: {"aws"}}
	for name, c := range map[string]struct {
		begun string
		want  []string
	}{
		"the names of the providers": {"", []string{"aws=", "docker="}},
		"then files and folders":     {"docker=" + dir + "/f", []string{"docker=" + dir + "/file", "docker=" + dir + "/folder/"}},
		"nothing that isn't there":   {"docker=" + dir + "/x", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := completeBinary(request, c.begun); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
