package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/internal/home"
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

// TestOneAtATime: who installs programs waits for others that do, and one that fails keeps nobody waiting.
func TestOneAtATime(t *testing.T) {
	a := &app{home: home.Dir(t.TempDir()), err: io.Discard}
	if err := os.MkdirAll(a.home.Plane(), 0o700); err != nil {
		t.Fatal(err)
	}
	with := func(program string) *target { return &target{binaries: map[string]string{"docker": program}} }
	if _, err := a.allowBinaries(t.Context(), with("not absolute")); err == nil {
		t.Error("a path that is not absolute was accepted")
	}
	done, err := a.allowBinaries(t.Context(), with("/opt/first"))
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := a.allowBinaries(short, with("/opt/second")); err == nil || !strings.Contains(err.Error(), "--provider-binary is still at work") {
		t.Errorf("a second one does not wait: %v", err)
	}
	if none, err := a.allowBinaries(t.Context(), &target{}); err != nil {
		t.Errorf("one without programs waits: %v", err)
	} else {
		none()
	}
	done()
	done, err = a.allowBinaries(t.Context(), with("/opt/second"))
	if err != nil {
		t.Fatal(err)
	}
	done()
	if text, err := os.ReadFile(filepath.Join(a.home.Plane(), "provider-binaries")); err != nil || string(text) != "/opt/first\n/opt/second\n" {
		t.Errorf("%q may run, %v", text, err)
	}
}
