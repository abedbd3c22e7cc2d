//go:build linux

package plane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"github.com/capstan-dev/capstan/internal/process"
	"github.com/capstan-dev/capstan/plane/pki"
)

// EtcdMember is the name of the plane's only etcd member.
const EtcdMember = "plane"

// etcd returns the plane's only etcd member. It listens on loopback and accepts only the API server's certificate.
func (p *plane) etcd() process.Process {
	client, peer := "https://"+loopback(p.Ports.Etcd), "https://"+loopback(p.Ports.EtcdPeer)
	keys := p.PKI
	proc := p.child("etcd", "etcd",
		"--name="+EtcdMember,
		"--data-dir="+filepath.Join(p.Dir, etcdDir),
		"--listen-client-urls="+client,
		"--advertise-client-urls="+client,
		"--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer,
		"--initial-cluster="+EtcdMember+"="+peer,
		"--client-cert-auth",
		"--trusted-ca-file="+keys.EtcdCA.CertFile,
		"--cert-file="+keys.Etcd.CertFile,
		"--key-file="+keys.Etcd.KeyFile,
		"--peer-client-cert-auth",
		"--peer-trusted-ca-file="+keys.EtcdCA.CertFile,
		"--peer-cert-file="+keys.Etcd.CertFile,
		"--peer-key-file="+keys.Etcd.KeyFile,
		"--tls-min-version=TLS1.2",
		// These messages tell the API server's watch caches how fresh the caches are.
		"--watch-progress-notify-interval=5s",
		// A single member needs no election, but waits for a whole election timeout at each start.
		"--heartbeat-interval=50",
		"--election-timeout=250",
		"--snapshot-count=10000",
		// The limit of etcd's size. The plane's upkeep keeps the size below it, and warns if it can't.
		"--quota-backend-bytes="+strconv.FormatInt(p.opts.EtcdQuota, 10),
		"--log-level=warn",
	)
	proc.Probe = probe(client+"/health", keys.EtcdCA, keys.EtcdClient)
	return proc
}

// probe returns a function that returns nil if a GET of url returns status 200.
func probe(url string, ca, client pki.Pair) func(context.Context) error {
	return func(ctx context.Context) error {
		cert, err := client.Current()
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(ca.Cert)
		transport := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS12},
		}
		defer transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
			return fmt.Errorf("%s answers %s: %s", url, resp.Status, body)
		}
		return nil
	}
}
