package main

import (
	"strings"
	"testing"
)

func TestBundleFlags(t *testing.T) {
	for name, c := range map[string]struct {
		flags bundleFlags
		fails string
	}{
		"no flags":                 {},
		"only a source":            {flags: bundleFlags{source: "Packages"}},
		"a mirror":                 {flags: bundleFlags{"Mirror", "http://192.0.2.1:8080/bundles"}},
		"an unknown source":        {flags: bundleFlags{source: "mirror"}, fails: "give Plane, Directory"},
		"a mirror without a URL":   {flags: bundleFlags{source: "Mirror"}, fails: "needs --bundle-mirror"},
		"a URL without the source": {flags: bundleFlags{mirror: "https://mirror.example"}, fails: "give both"},
		"a password":               {flags: bundleFlags{"Mirror", "https://a:b@mirror.example"}, fails: "without a password"},
		"another scheme":           {flags: bundleFlags{"Mirror", "ftp://mirror.example"}, fails: "needs --bundle-mirror"},
	} {
		_, err := c.flags.policy()
		if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: got %v, want %q", name, err, c.fails)
		}
	}
}
