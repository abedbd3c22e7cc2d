package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/capstan-dev/capstan/clusterctl"
)

func TestCompleteBinary(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	request := clusterctl.Request{
		clusterctlv1.InfrastructureProviderType: {"docker:v1.0.0", "aws"}, clusterctlv1.AddonProviderType: {"aws"},
	}
	for name, c := range map[string]struct {
		begun string
		want  []string
	}{
		"an empty word: the names of the providers": {"", []string{"aws=", "docker="}},
		"a provider and a path: files and directories": {"docker=" + dir + "/f",
			[]string{"docker=" + dir + "/file", "docker=" + dir + "/full/"}},
		"a path that does not exist: nothing": {"docker=" + dir + "/x", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := completeBinary(request, c.begun); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestUseBinaries(t *testing.T) {
	request := clusterctl.Request{clusterctlv1.InfrastructureProviderType: {"docker"}}
	for name, c := range map[string]struct {
		kubeconfig string
		given      []string
		fails      bool
	}{
		"no program":                                     {"", nil, false},
		"no program, another management cluster":         {"other", nil, false},
		"a program, another management cluster":          {"other", []string{"docker=/bin/sh"}, true},
		"a program for a provider that is not requested": {"", []string{"aws=/bin/sh"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			target := &target{kubeconfig: c.kubeconfig}
			if err := target.useBinaries(c.given, request); (err != nil) != c.fails {
				t.Errorf("useBinaries returned error %v", err)
			}
		})
	}
}

func TestSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90": 90 * time.Second, "5m": 5 * time.Minute, "0": 0, "-1s": -1, "soon": -1, "": -1,
	} {
		var s seconds
		err := s.Set(text)
		if (err != nil) != (want < 0) || err == nil && time.Duration(s) != want {
			t.Errorf("%q was parsed as %s, error %v; want %s", text, &s, err, want)
		}
	}
}
