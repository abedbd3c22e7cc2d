package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/runtime/internal/testtls"
	"github.com/capstan-dev/capstan/runtime/server"
)

// running is a server that is serving.
type running struct {
	url string
	log *lockedBuffer
	end func() error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func start(t *testing.T, options server.TLS, handler http.Handler) running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	address := make(chan net.Addr, 1)
	log := &lockedBuffer{}
	options.Address, options.Ready = "127.0.0.1:0", func(a net.Addr) { address <- a }
	options.Log = slog.New(slog.NewTextHandler(log, nil))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, options, handler) }()
	var once sync.Once
	var err error
	end := func() error {
		once.Do(func() { cancel(); err = <-ended })
		return err
	}
	t.Cleanup(func() { _ = end() })
	select {
	case a := <-address:
		return running{url: "https://" + a.String(), log: log, end: end}
	case err := <-ended:
		t.Fatal(err)
		return running{}
	}
}

// connect makes one call on a new connection, and returns the server's certificate.
func connect(url string, ca *testtls.Authority, own ...tls.Certificate) (*x509.Certificate, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: own}}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Post(url, "application/json",
		strings.NewReader("{}"))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return nil, err
	}
	return answer.TLS.PeerCertificates[0], nil
}

// Files laid out as in a mounted Secret of cert-manager are served, and read again when they change (RX-34).
func TestCertificateIsReadAgain(t *testing.T) {
	ca, directory := testtls.NewAuthority(t), t.TempDir()
	certFile, keyFile := ca.Write(t, directory, nil)
	s := start(t, server.TLS{CertFile: certFile, KeyFile: keyFile}, newServer(t))
	first, err := connect(s.url, ca)
	if err != nil {
		t.Fatal(err)
	}
	// If only one of the two files was renewed, the last good pair stays in use, and the log says so.
	if err := os.WriteFile(certFile, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the log mentions the invalid file", func() bool {
		cert, err := connect(s.url, ca)
		if err != nil || !cert.Equal(first) {
			t.Fatalf("with half of a renewal: %v", err)
		}
		return strings.Contains(s.log.String(), "the last good ones stay")
	})
	ca.Write(t, directory, nil)
	eventually(t, "the new certificate is served", func() bool {
		cert, err := connect(s.url, ca)
		return err == nil && !cert.Equal(first)
	})
	t.Attr("rule", "RX-34")
}

func TestMutualTLS(t *testing.T) {
	ca, callers, strangers := testtls.NewAuthority(t), testtls.NewAuthority(t), testtls.NewAuthority(t)
	directory := t.TempDir()
	certFile, keyFile := ca.Write(t, directory, nil)
	caFile := filepath.Join(directory, "callers.crt")
	if err := os.WriteFile(caFile, callers.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, server.TLS{CertFile: certFile, KeyFile: keyFile, ClientCAFile: caFile}, newServer(t))
	if _, err := connect(s.url, ca, callers.Certificate(t, nil)); err != nil {
		t.Errorf("with a certificate of the CA: %v", err)
	}
	if _, err := connect(s.url, ca, strangers.Certificate(t, nil)); err == nil {
		t.Error("a certificate of another CA was accepted")
	}
	if _, err := connect(s.url, ca); err == nil {
		t.Error("a caller without a certificate was accepted")
	}
}

func TestServeFails(t *testing.T) {
	ca, directory := testtls.NewAuthority(t), t.TempDir()
	certFile, keyFile := ca.Write(t, directory, nil)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, c := range map[string]struct {
		options server.TLS
		want    string
	}{
		"no certificate":         {server.TLS{}, "a certificate and its key are needed"},
		"a file that is missing": {server.TLS{CertFile: certFile + "x", KeyFile: keyFile}, "no such file"},
		"files that are swapped": {server.TLS{CertFile: keyFile, KeyFile: certFile}, "reading the server's certificate from"},
		"a file that contains no CA": {server.TLS{CertFile: certFile, KeyFile: keyFile, ClientCAFile: keyFile},
			"no certificate in PEM form"},
		"a port that is taken": {server.TLS{Address: taken.Addr().String(), CertFile: certFile, KeyFile: keyFile},
			"address already in use"},
	} {
		if err := server.Serve(t.Context(), c.options, newServer(t)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want one with %q", name, err, c.want)
		}
		switch name {
		case "no certificate":
			t.Attr("rule", "RX-01")
		}
	}
}

func TestCallsInWorkEndBeforeServe(t *testing.T) {
	ca := testtls.NewAuthority(t)
	certFile, keyFile := ca.Write(t, t.TempDir(), nil)
	entered, release := make(chan struct{}), make(chan struct{})
	s := start(t, server.TLS{CertFile: certFile, KeyFile: keyFile},
		newServer(t, gate(func(context.Context, *createRequest, *createResponse) error {
			close(entered)
			<-release
			return nil
		})))
	answered := make(chan error, 1)
	go func() {
		_, err := connect(s.url+createPath, ca)
		answered <- err
	}()
	<-entered
	ended := make(chan error, 1)
	go func() { ended <- s.end() }()
	eventually(t, "new connections are refused", func() bool {
		_, err := connect(s.url, ca)
		return err != nil
	})
	close(release)
	if err := errors.Join(<-answered, <-ended); err != nil {
		t.Errorf("a running call was cut off: %v", err)
	}
}

// A slow body must not keep its slot longer than the call may take.
func TestSlowBodiesAreCut(t *testing.T) {
	ca := testtls.NewAuthority(t)
	certFile, keyFile := ca.Write(t, t.TempDir(), nil)
	s := start(t, server.TLS{CertFile: certFile, KeyFile: keyFile},
		newServer(t, gate(func(context.Context, *createRequest, *createResponse) error { return nil },
			server.Timeout(time.Second))))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM)
	conn, err := tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST "+createPath+
		" HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := conn.SetReadDeadline(began.Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Logf("the connection ended with %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the connection lived for %s", took)
	}
}

// eventually waits for a condition for at most ten seconds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("not within the time limit: %s", what)
		case <-tick.C:
		}
	}
}
