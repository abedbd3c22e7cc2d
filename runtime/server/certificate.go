package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// checkEvery is the minimum time between two checks of the certificate files.
const checkEvery = time.Second

// identity serves a certificate from files, and client CAs if there is a file of them. It reads changed files again at
// the next connection, so a renewed certificate needs no restart. If changed files can't be used, for example because
// only one of two has been written yet, the last good ones stay in use.
type identity struct {
	files TLS
	log   *slog.Logger

	mu      sync.Mutex
	checked time.Time
	stamps  []stamp
	config  *tls.Config
}

// stamp identifies the state of a file. Kubernetes swaps mounted files through a symbolic link, which a comparison of
// names would miss.
type stamp struct {
	info os.FileInfo
}

func (s stamp) same(other stamp) bool {
	return os.SameFile(s.info, other.info) && s.info.ModTime().Equal(other.info.ModTime()) &&
		s.info.Size() == other.info.Size()
}

// newIdentity reads the files for the first time and fails if they can't be used.
func newIdentity(files TLS, log *slog.Logger) (*identity, error) {
	i := &identity{files: files, log: log}
	stamps, err := i.look()
	if err != nil {
		return nil, err
	}
	if i.config, err = i.read(); err != nil {
		return nil, err
	}
	i.stamps, i.checked = stamps, time.Now()
	return i, nil
}

// tlsConfig returns a configuration that checks the files at each connection.
func (i *identity) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return i.current(), nil },
	}
}

func (i *identity) current() *tls.Config {
	i.mu.Lock()
	defer i.mu.Unlock()
	if time.Since(i.checked) < checkEvery {
		return i.config
	}
	i.checked = time.Now()
	if err := i.refresh(); err != nil {
		i.log.Error("Changed certificates can't be used; the last good ones stay in use", "error", err)
	}
	return i.config
}

func (i *identity) refresh() error {
	stamps, err := i.look()
	if err != nil {
		return err
	}
	changed := false
	for n := range stamps {
		changed = changed || !stamps[n].same(i.stamps[n])
	}
	if !changed {
		return nil
	}
	config, err := i.read()
	if err != nil {
		return err
	}
	i.config, i.stamps = config, stamps
	return nil
}

func (i *identity) paths() []string {
	var paths []string
	if i.files.GetCertificate == nil {
		paths = append(paths, i.files.CertFile, i.files.KeyFile)
	}
	if i.files.ClientCAFile != "" {
		paths = append(paths, i.files.ClientCAFile)
	}
	return paths
}

func (i *identity) look() ([]stamp, error) {
	var stamps []stamp
	for _, path := range i.paths() {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("reading the server's certificate: %w", err)
		}
		stamps = append(stamps, stamp{info})
	}
	return stamps, nil
}

func (i *identity) read() (*tls.Config, error) {
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: i.files.GetCertificate,
	}
	if i.files.GetCertificate == nil {
		certificate, err := tls.LoadX509KeyPair(i.files.CertFile, i.files.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("reading the server's certificate from %s and %s: %w", i.files.CertFile, i.files.KeyFile, err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	if i.files.ClientCAFile == "" {
		return config, nil
	}
	authorities, err := os.ReadFile(i.files.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the client CAs: %w", err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("reading the client CAs from %s: %w", i.files.ClientCAFile,
			errors.New("it holds no certificate in PEM form"))
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	return config, nil
}
