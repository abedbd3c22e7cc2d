package client_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/internal/testtls"
)

// Texts of errors end up in conditions: the same failure must produce the same text, without ports and times.
func TestErrorsAreStable(t *testing.T) {
	stranger := func(s *httptest.Server) {
		s.TLS.Certificates = []tls.Certificate{testtls.NewAuthority(t).Certificate(t, nil)}
	}
	closed := func(b *bench) {
		s := b.ca.Serve(b.t, body(success), nil)
		s.Close()
		b.register(b.config("ext", s.URL), "gate", runtimev1.FailurePolicyFail, 1)
	}
	for name, c := range map[string]struct {
		start func(*bench)
		want  string
	}{
		"no server listens": {closed, "dial 127.0.0.1:PORT: connect: connection refused"},
		"the server resets the connection": {func(b *bench) { b.raw(runtimev1.FailurePolicyFail, 1, reset) },
			"read 127.0.0.1:PORT: read: connection reset by peer"},
		"the server's name can't be looked up": {func(b *bench) {
			b.register(b.config("ext", "https://extension.invalid:9443"), "gate", runtimev1.FailurePolicyFail, 5)
		}, `its name "extension.invalid" could not be looked up: no such host`},
		"the server hangs": {
			func(b *bench) { b.raw(runtimev1.FailurePolicyFail, 1, hang) }, "it did not answer within 1s",
		},
		"unknown CA": {func(b *bench) { b.rawServer(runtimev1.FailurePolicyFail, 1, body(success), stranger) },
			"tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		"the server does not speak TLS": {notTLS, "read"},
		"the certificate has expired": {func(b *bench) {
			b.rawServer(runtimev1.FailurePolicyFail, 1, body(success), func(s *httptest.Server) {
				s.TLS.Certificates = []tls.Certificate{
					b.ca.Certificate(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }),
				}
			})
		}, "its certificate is only valid from"},
		"the certificate is for another name": {func(b *bench) {
			b.rawServer(runtimev1.FailurePolicyFail, 1, body(success), func(s *httptest.Server) {
				s.TLS.Certificates = []tls.Certificate{
					b.ca.Certificate(t, func(c *x509.Certificate) { c.IPAddresses = nil; c.DNSNames = []string{"other"} }),
				}
			})
		}, "cannot validate certificate for 127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, client.Options{})
			c.start(b)
			_, first := b.gate(t.Context())
			<-time.After(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // texts with the time of day differ now
			_, second := b.gate(t.Context())
			if first == nil || second == nil || first.Error() != second.Error() {
				t.Fatalf("the error changed:\n%v\n%v", first, second)
			}
			text := first.Error()
			if i := strings.Index(text, "127.0.0.1:"); i >= 0 && strings.Contains(c.want, "PORT") {
				end := i + strings.IndexAny(text[i+10:], ": ") + 10
				text = text[:i] + "127.0.0.1:PORT" + text[end:]
			}
			if !strings.Contains(text, c.want) {
				t.Errorf("error is %q, want one with %q", text, c.want)
			}
			if strings.Contains(first.Error(), "->") || strings.Contains(first.Error(), "https://") {
				t.Errorf("error %q has a port or a URL", first)
			}
		})
	}
}

// notTLS starts a server that does not speak TLS.
func notTLS(b *bench) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			_, _ = io.ReadFull(conn, make([]byte, 5))
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	}()
	b.t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	b.register(b.config("ext", "https://"+listener.Addr().String()), "gate", runtimev1.FailurePolicyFail, 1)
}

func TestClientCertificate(t *testing.T) {
	ca := testtls.NewAuthority(t)
	own := ca.Certificate(t, nil)
	b := newBench(t, client.Options{Certificate: func() (*tls.Certificate, error) { return &own, nil }})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM)
	ask := func(s *httptest.Server) { s.TLS.ClientAuth, s.TLS.ClientCAs = tls.RequireAndVerifyClientCert, pool }
	b.rawServer(runtimev1.FailurePolicyFail, 5, body(success), ask)
	if _, err := b.gate(t.Context()); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
	without := newBench(t, client.Options{})
	without.rawServer(runtimev1.FailurePolicyFail, 5, body(success), ask)
	if _, err := without.gate(t.Context()); err == nil {
		t.Error("without a certificate the call went through")
	}
}
