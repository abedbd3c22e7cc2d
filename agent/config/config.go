// Package config reads the agent's configuration file.
package config

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Defaults of settings that the file leaves out.
const (
	DefaultPath       = "/etc/capstan/agent.yaml"
	DefaultBundlesDir = "/opt/capstan/bundles"
	DefaultStateDir   = "/var/lib/capstan"
)

// sizeLimit bounds the file, in bytes.
const sizeLimit = 1 << 20

// Config says which host this is, and which management cluster it belongs to.
type Config struct {
	// Server is the https URL of the management cluster's API server. Required.
	Server string `yaml:"server"`
	// CAData contains the certificates that sign the server's certificate, in PEM or, as in a kubeconfig, in base64 of
	// PEM. Required: the agent must authenticate the server, because the agent runs as root whatever the server sends.
	CAData string `yaml:"caData"`
	// Namespace is the namespace of the CapstanHost. Required.
	Namespace string `yaml:"namespace"`
	// Host is the name of the CapstanHost. Required.
	Host string `yaml:"host"`
	// Enrolment is the URL of the plane's enrolment server. From this server, the agent gets bundles, and a new token when
	// its token has expired. If the setting is empty, a person must provide the bundles, and must enroll the host again
	// when the agent's token has expired.
	Enrolment string `yaml:"enrolment,omitempty"`
	// Token is a bearer token of the host's ServiceAccount. It may be short-lived, because the agent uses it at once to
	// get a token of its own.
	Token string `yaml:"token"`
	// BundlesDir contains a directory for each Kubernetes version that can be installed. Default /opt/capstan/bundles.
	BundlesDir string `yaml:"bundlesDir"`
	// Bundles says where the programs of a Node come from: from the plane (plane), from bundlesDir (directory) or from
	// packages on the host (packages). Default: the value of spec.bundles of the CapstanHost. If that is empty, too, the
	// default is packages if the host has kubeadm and kubelet, and plane otherwise.
	Bundles string `yaml:"bundles,omitempty"`
	// StateDir is where the agent keeps its token and journal. Default /var/lib/capstan.
	StateDir string `yaml:"stateDir"`
	// Local is true on hosts that are namespaces of another machine. They have a host name of their own, but no disks and
	// no clock of their own.
	Local bool `yaml:"local"`
	// TokenFile is the name of the file in StateDir with the agent's own token. It is not part of the configuration
	// file. Default "token".
	TokenFile string `yaml:"-"`
}

// name matches a DNS label or subdomain, like the names of API objects; the name becomes part of URLs.
var name = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// Read reads and checks the file at path. It rejects a file that users other than the owner may read, because the file
// holds a credential.
func Read(path string) (Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return Config{}, fmt.Errorf("reading the configuration: %w; enroll the host to create it", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Config{}, fmt.Errorf("reading the configuration: %w", err)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return Config{}, fmt.Errorf("reading %s: it holds a credential but its mode is %#o; run: chmod 0600 %s", path,
			perm, path)
	}
	data, err := io.ReadAll(io.LimitReader(f, sizeLimit))
	if err != nil {
		return Config{}, fmt.Errorf("reading %s: %w", path, err)
	}
	c, err := Parse(data)
	if err != nil {
		return Config{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return c, nil
}

// Parse reads a configuration and fills in the defaults. It rejects unknown keys.
func Parse(data []byte) (Config, error) {
	c := Config{BundlesDir: DefaultBundlesDir, StateDir: DefaultStateDir}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return Config{}, err
	}
	c.Server = strings.TrimRight(c.Server, "/")
	return c, c.Check()
}

// Check returns an error if a setting is missing or invalid.
func (c *Config) Check() error {
	switch {
	case c.Server == "":
		return errors.New("server is missing: the URL of the management cluster's API server")
	case !isServer(c.Server):
		return errors.New("server must be a URL like https://10.0.0.1:6443")
	case c.Enrolment != "" && !isServer(c.Enrolment):
		return errors.New("enrolment must be a URL like https://10.0.0.1:7444")
	case !name.MatchString(c.Namespace):
		return errors.New("namespace must be the name of the CapstanHost's namespace")
	case !name.MatchString(c.Host):
		return errors.New("host must be the name of the CapstanHost")
	case c.Bundles != "" && c.Bundles != "plane" && c.Bundles != "directory" && c.Bundles != "packages":
		return errors.New("bundles must be plane, directory or packages")
	case !filepath.IsAbs(c.BundlesDir) || !filepath.IsAbs(c.StateDir):
		return errors.New("bundlesDir and stateDir must be absolute paths")
	}
	_, err := c.Roots()
	return err
}

// isServer reports whether a text is the URL of a server that uses TLS.
func isServer(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.RawQuery == "" && u.User == nil
}

// Roots returns the certificates that sign the server's certificate.
func (c *Config) Roots() (*x509.CertPool, error) {
	pem := []byte(c.CAData)
	if !strings.Contains(c.CAData, "-----BEGIN") {
		var err error
		if pem, err = base64.StdEncoding.DecodeString(strings.TrimSpace(c.CAData)); err != nil {
			return nil, errors.New("caData must be PEM, or base64 of PEM")
		}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("caData has no certificate: it must be the certificate authority of the server, in PEM or " +
			"base64 of PEM")
	}
	return pool, nil
}

// TokenPath returns the path of the file with the agent's own token.
func (c *Config) TokenPath() string { return filepath.Join(c.StateDir, cmp.Or(c.TokenFile, "token")) }

// JournalDir returns the directory of the journals.
func (c *Config) JournalDir() string { return filepath.Join(c.StateDir, "journal") }
