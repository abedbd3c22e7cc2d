package bundle

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/agent/fault"
)

// bundles creates bundles whose binary lists no applets.
func bundles(t *testing.T, versions ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bundles")
	for _, v := range versions {
		if err := os.MkdirAll(filepath.Join(dir, v), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, v, Binary), []byte("#!/bin/sh\necho '{\"applets\": [\"kubeadm\"]}'\n"),
			0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestVersionsAreListedNewestFirst(t *testing.T) {
	dir := bundles(t, "v1.9.0", "v1.36.3", "v1.36.10", "v1.36.10-rc.1", "other", "1.2.3")
	if err := os.MkdirAll(filepath.Join(dir, "v1.40.0"), 0o755); err != nil { // without a binary
		t.Fatal(err)
	}
	got, err := Versions(dir)
	if want := []string{"v1.36.10", "v1.36.10-rc.1", "v1.36.3", "v1.9.0"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if got, err := Versions(dir + "x"); got != nil || err != nil {
		t.Errorf("without a directory: %v, %v", got, err)
	}
}

func TestInstall(t *testing.T) {
	cases := map[string]struct {
		have     []string
		wanted   string
		required bool
		err      string
		links    int
	}{
		"the version is there": {[]string{"v1.36.3", "v1.35.1"}, "v1.35.1", true, "", 4},
		"the version is not there": {[]string{"v1.36.3", "v1.35.1"}, "v1.34.0", false,
			"no bundle of Kubernetes v1.34.0", 0},
		"the error lists what is there": {[]string{"v1.36.3", "v1.35.1"}, "v1.34.0", false, "it has v1.36.3, v1.35.1", 0},
		"no bundles, but own programs":  {nil, "v1.36.3", false, "", 0},
		"no bundles on a local host":    {nil, "v1.36.3", true, "install the one of Kubernetes v1.36.3", 0},
		"the claim names no version":    {[]string{"v1.36.3"}, "", true, "", 0},
		"a path as a version":           {[]string{"v1.36.3"}, "../v1.36.3", true, "no bundle of Kubernetes", 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir, bin := bundles(t, c.have...), filepath.Join(t.TempDir(), "bin")
			for range 2 {
				err := Install(t.Context(), dir, bin, c.wanted, c.required)
				if c.err == "" && err != nil || c.err != "" && !strings.Contains(fault.Text(err, ""), c.err) {
					t.Fatalf("got %v, want %q", err, c.err)
				}
			}
			links, err := Links(dir, bin)
			if err != nil || len(links) != c.links {
				t.Errorf("links %v, %v", links, err)
			}
			if err := Remove(dir, bin); err != nil {
				t.Fatal(err)
			}
			if links, _ := Links(dir, bin); len(links) > 0 {
				t.Errorf("links left: %v", links)
			}
		})
	}
}

func TestAnotherVersionReplacesOurLinksButNothingElse(t *testing.T) {
	dir, bin := bundles(t, "v1.36.3", "v1.35.1"), t.TempDir()
	for _, v := range []string{"v1.35.1", "v1.36.3"} {
		if err := Install(t.Context(), dir, bin, v, true); err != nil {
			t.Fatal(err)
		}
	}
	if to, err := os.Readlink(filepath.Join(bin, "kubelet")); err != nil || to != filepath.Join(dir, "v1.36.3", Binary) {
		t.Errorf("kubelet leads to %q, %v", to, err)
	}
	foreign := filepath.Join(bin, "kubeadm")
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(foreign, []byte("mine"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Install(t.Context(), dir, bin, "v1.36.3", true); err == nil ||
		!strings.Contains(fault.Text(err, ""), "does not come from a bundle") {
		t.Errorf("got %v", err)
	}
	if err := Remove(dir, bin); err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(foreign); string(data) != "mine" {
		t.Error("a program that is not ours was replaced")
	}
}
