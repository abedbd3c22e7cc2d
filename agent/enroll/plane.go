package enroll

import (
	"crypto/tls"

	"github.com/capstan-dev/capstan/agent/bundle"
	"github.com/capstan-dev/capstan/agent/config"
)

// Plane returns the source of bundles for the host with this configuration, or nil if the host was not enrolled with a
// plane that has bundles. The host proves its identity with its key.
func Plane(c config.Config) (*bundle.Plane, error) {
	if c.Enrolment == "" {
		return nil, nil
	}
	key, err := readKey(c.StateDir)
	if err != nil {
		return nil, err
	}
	shown, err := certificate(key)
	if err != nil {
		return nil, err
	}
	roots, err := c.Roots()
	if err != nil {
		return nil, err
	}
	server, err := connect(c.Enrolment, shown, func(host string) *tls.Config {
		return &tls.Config{MinVersion: tls.VersionTLS13, ServerName: host, RootCAs: roots}
	})
	if err != nil {
		return nil, err
	}
	server.http.Timeout = 0 // a bundle takes as long as it takes; the caller has a limit
	return &bundle.Plane{URL: c.Enrolment, HTTP: server.http}, nil
}
