package config

import (
	"net/url"
	"path/filepath"
	"testing"
)

// FuzzParse: a configuration that is accepted names one server that uses TLS, and directories by absolute paths.
func FuzzParse(f *testing.F) {
	f.Add([]byte("server: https://10.0.0.1:6443\nnamespace: default\nhost: host-01\ncaData: eA==\ntoken: t\n"))
	f.Add([]byte("server: https://user@h\nnamespace: a\nhost: b\nstateDir: ../x\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err != nil {
			return
		}
		u, err := url.Parse(c.Server)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			t.Errorf("the server is %q", c.Server)
		}
		if !filepath.IsAbs(c.StateDir) || !filepath.IsAbs(c.BundlesDir) || filepath.Dir(c.TokenPath()) == "." {
			t.Errorf("got %+v", c)
		}
		if err := c.Check(); err != nil {
			t.Errorf("Check refuses the accepted configuration: %v", err)
		}
	})
}
