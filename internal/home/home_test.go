package home

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	for name, c := range map[string]struct {
		flag string
		env  map[string]string
		want string
		err  string
	}{
		"the flag takes precedence": {flag: "/a", env: map[string]string{"CAPSTAN_HOME": "/b"}, want: "/a"},
		"CAPSTAN_HOME comes second": {
			env: map[string]string{"CAPSTAN_HOME": "/b", "XDG_DATA_HOME": "/c"}, want: "/b",
		},
		"XDG_DATA_HOME comes third": {
			env: map[string]string{"XDG_DATA_HOME": "/c", "HOME": "/h"}, want: "/c/capstan",
		},
		"the user's home comes last":          {env: map[string]string{"HOME": "/h"}, want: "/h/.local/share/capstan"},
		"nothing set is an error":             {err: "give --home"},
		"a path too long for unix sockets":    {flag: "/" + strings.Repeat("x", 95), err: "shorter --home"},
		"a relative flag is made absolute":    {flag: "/a/../b", want: "/b"},
		"CAPSTAN_HOME may have a final slash": {env: map[string]string{"CAPSTAN_HOME": "/b/"}, want: "/b"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Find(c.flag, func(k string) string { return c.env[k] })
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil || string(got) != c.want {
				t.Errorf("Find = %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestBundles(t *testing.T) {
	dir := t.TempDir()
	for _, v := range []string{"v1.35.4", "v1.36.3", "v1.36.10", "v1.9.1"} {
		if err := os.MkdirAll(filepath.Join(dir, "bundles", v), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "bundles", v, "capstan-kube"), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b := Binaries(dir)
	if want, got := []string{"v1.36.10", "v1.36.3", "v1.35.4", "v1.9.1"}, b.Bundles(); !reflect.DeepEqual(got, want) {
		t.Errorf("Bundles = %v, want %v", got, want)
	}
	if _, err := b.Kube("v1.36.3"); err != nil {
		t.Error(err)
	}
	if _, err := b.Kube("v1.99.0"); err == nil || !strings.Contains(err.Error(), "v1.36.10") {
		t.Errorf("the error %v does not list the bundles", err)
	}
	if _, err := Binaries(t.TempDir()).Kube("v1.36.3"); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("the error %v does not say how to build", err)
	}
}

// TestProgramsThatEverybodyMayWriteAreNotRun: neither a program nor a bundle is run if it or its directory is writable
// for everybody.
func TestProgramsThatEverybodyMayWriteAreNotRun(t *testing.T) {
	const version = "v1.36.3"
	for name, c := range map[string]struct {
		path string
		mode os.FileMode
		want string
	}{
		"the usual modes":                             {"", 0, ""},
		"a program that its group may write":          {"capstan-dock", 0o775, ""},
		"a program that everybody may write":          {"capstan-dock", 0o757, "capstan-dock, so"},
		"a sticky program that everybody may write":   {"capstan-dock", 0o757 | os.ModeSticky, "capstan-dock, so"},
		"a directory that everybody may write":        {".", 0o777, "chmod o-w"},
		"a sticky directory that everybody may write": {".", 0o777 | os.ModeSticky, ""},
		"a bundle that everybody may write": {
			"bundles/" + version + "/capstan-kube", 0o777, "capstan-kube, so",
		},
		"a bundle's directory that everybody may write": {"bundles/" + version, 0o777, version + ", so"},
		"a file that Capstan does not run":              {"other", 0o777, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{"capstan-dock", "other", "bundles/" + version + "/capstan-kube"} {
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if c.path != "" {
				if err := os.Chmod(filepath.Join(dir, c.path), c.mode); err != nil {
					t.Fatal(err)
				}
			}
			_, first := Binaries(dir).Path("capstan-dock")
			_, second := Binaries(dir).Kube(version)
			err := errors.Join(first, second)
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
}
