package config

import (
	"encoding/base64"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func authority(t *testing.T) string {
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

func TestParse(t *testing.T) {
	ca := base64.StdEncoding.EncodeToString([]byte(authority(t)))
	good := "server: https://10.231.0.1:6443/\ncaData: " + ca + "\nnamespace: default\nhost: h1\n"
	cases := map[string]struct{ data, want string }{
		"all required settings":              {good, ""},
		"an empty file":                      {"", "server is missing"},
		"a server without TLS":               {strings.Replace(good, "https", "http", 1), "server must be"},
		"a password in the server's URL":     {strings.Replace(good, "10.231", "u:p@10.231", 1), "server must be"},
		"a host name that leads elsewhere":   {strings.Replace(good, "h1", "../h2", 1), "host must be"},
		"no namespace":                       {strings.Replace(good, "default", "''", 1), "namespace must be"},
		"an authority without a certificate": {strings.Replace(good, ca, "aGVsbG8=", 1), "no certificate"},
		"an authority that is not base64":    {strings.Replace(good, ca, "'%'", 1), "caData must be"},
		"an enrolment server without TLS":    {good + "enrolment: http://10.0.0.1:7444\n", "enrolment must be"},
		"an unknown key":                     {good + "bundleDir: /x\n", "bundleDir"},
		"an unknown source of bundles":       {good + "bundles: internet\n", "bundles must be"},
		"bundles from packages":              {good + "bundles: packages\n", ""},
		"a relative path":                    {good + "stateDir: x\n", "absolute"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(c.data))
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if got.Server != "https://10.231.0.1:6443" || got.StateDir != DefaultStateDir ||
					got.BundlesDir != DefaultBundlesDir {
					t.Errorf("defaults: %+v", got)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestReadRefusesAFileThatOthersCanRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.yaml")
	var b strings.Builder
	b.WriteString("server: https://10.0.0.1:6443\nnamespace: default\nhost: h1\ncaData: |\n")
	for line := range strings.Lines(authority(t)) {
		b.WriteString("  " + line)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "chmod 0600") {
		t.Fatalf("got %v", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path + ".missing"); err == nil || !strings.Contains(err.Error(), "enroll") {
		t.Fatalf("got %v", err)
	}
}
