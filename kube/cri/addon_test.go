//go:build linux

package cri

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/capstan-dev/capstan/kube/component"
)

func TestAnAddOnIsFoundInAnotherBundle(t *testing.T) {
	dir := t.TempDir()
	bundles := map[string]string{
		"v1.35.4": `{"kubernetes": "v1.35.4", "coredns-tag": "v1.13.1", "pause-tag": "3.10.1", "applets": ["coredns", "kube-proxy"]}`,
		"v1.33.0": `{"kubernetes": "v1.33.0", "coredns-tag": "v1.12.0", "applets": ["etcd"]}`,
		"damaged": `{`,
	}
	for name, text := range bundles {
		path := filepath.Join(dir, name, "capstan-kube")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n[ $1 = versions ] && echo '"+text+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string]struct {
		name, tag, want string
		fails           bool
	}{
		"a bundle has the program":                {component.CoreDNS, "v1.13.1", "v1.35.4", false},
		"an old bundle has the tag but no applet": {component.CoreDNS, "v1.12.0", "", true},
		"no bundle has the tag":                   {component.CoreDNS, "v1.0.0", "", true},
		"kube-proxy of another release":           {component.KubeProxy, "v1.35.4", "v1.35.4", false},
		"pause needs no applet":                   {component.Pause, "3.10.1", "v1.35.4", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var others otherBundles
			binary, ok, err := others.find(dir, addOns[c.name], c.tag)
			want := ""
			if c.want != "" {
				want = filepath.Join(dir, c.want, "capstan-kube")
			}
			if binary != want || ok != (want != "") || (err != nil) != c.fails {
				t.Errorf("found %q, %t, %v; want %q", binary, ok, err, want)
			}
		})
	}
}
