package enrolment

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/testcert"
)

func TestCredential(t *testing.T) {
	text, id := NewCredential()
	got, hash, err := ParseCredential(text)
	if err != nil || got != id || len(hash) != 64 || strings.Contains(text, hash) {
		t.Fatalf("the parsed credential has id %q and hash %q, error %v", got, hash, err)
	}
	other, _ := NewCredential()
	if _, otherHash, err := ParseCredential(other); err != nil || otherHash == hash || other == text {
		t.Errorf("a second credential is the same, or can't be parsed: %v", err)
	}
	for name, broken := range map[string]string{
		"empty": "", "no secret": text[:len(text)-27], "one character more": text + "a", "a line end": text + "\n",
		"capitals": strings.ToUpper(text), "another prefix": "x" + text,
	} {
		_, _, err := ParseCredential(broken)
		if err == nil {
			t.Errorf("%s: the credential was accepted", name)
		} else if secret := text[len(text)-26:]; strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error contains the secret: %v", name, err)
		}
	}
}

func server(name string, ip string) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: "server"}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.ParseIP(ip)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
}

// TestClientConfig shakes hands with servers and checks whether any byte of the client arrives.
func TestClientConfig(t *testing.T) {
	ours, theirs := testcert.Authority(t), testcert.Authority(t)
	good := testcert.Sign(t, ours, server("plane.example", "192.0.2.1"))
	expired := server("plane.example", "192.0.2.1")
	expired.NotAfter = time.Now().Add(-time.Minute)
	for name, c := range map[string]struct {
		leaf testcert.Pair
		sent []testcert.Pair // in addition to the leaf
		host string
		pin  string
		ok   bool
	}{
		"the plane":                      {good, []testcert.Pair{ours}, "192.0.2.1", Pin(ours.Certificate), true},
		"the plane, reached by its name": {good, []testcert.Pair{ours}, "plane.example", Pin(ours.Certificate), true},
		"another hash":                   {good, []testcert.Pair{ours}, "192.0.2.1", Pin(theirs.Certificate), false},
		"no hash":                        {good, []testcert.Pair{ours}, "192.0.2.1", "", false},
		"a server that does not send its authority": {good, nil, "192.0.2.1", Pin(ours.Certificate), false},
		"another authority": {
			testcert.Sign(t, theirs, server("plane.example", "192.0.2.1")), []testcert.Pair{theirs}, "192.0.2.1",
			Pin(ours.Certificate), false,
		},
		"another authority, but the plane's authority is sent, too": {
			testcert.Sign(t, theirs, server("plane.example", "192.0.2.1")), []testcert.Pair{theirs, ours}, "192.0.2.1",
			Pin(ours.Certificate), false,
		},
		"another server with a certificate of the plane": {
			testcert.Sign(t, ours, server("other.example", "192.0.2.9")), []testcert.Pair{ours}, "192.0.2.1",
			Pin(ours.Certificate), false,
		},
		"an expired certificate": {
			testcert.Sign(t, ours, expired), []testcert.Pair{ours}, "192.0.2.1", Pin(ours.Certificate), false,
		},
		"a client certificate": {testcert.Sign(t, ours, &x509.Certificate{DNSNames: []string{"plane.example"},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}), []testcert.Pair{ours}, "plane.example",
			Pin(ours.Certificate), false},
		"the hash of the server's own key": {good, []testcert.Pair{ours}, "192.0.2.1", Pin(good.Certificate), false},
	} {
		t.Run(name, func(t *testing.T) {
			chain := []tls.Certificate{c.leaf.TLS(c.sent...)}
			arrived, err := talk(t, &tls.Config{Certificates: chain}, ClientConfig(c.host, c.pin))
			if (err == nil) != c.ok || !c.ok && !errors.Is(err, ErrPin) {
				t.Errorf("got error %v; want success: %t", err, c.ok)
			}
			if !c.ok && arrived != "" {
				t.Errorf("%q was sent to a server that is not the plane", arrived)
			}
			if c.ok && arrived != "secret" {
				t.Errorf("the plane got %q", arrived)
			}
		})
	}
}

// talk lets a client send "secret" and returns what arrives.
func talk(t *testing.T, server, client *tls.Config) (arrived string, err error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			got <- ""
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		data, _ := io.ReadAll(tls.Server(conn, server))
		got <- string(data)
	}()
	conn, err := net.DialTimeout("tcp", l.Addr().String(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	secure := tls.Client(conn, client)
	_, err = io.WriteString(secure, "secret")
	_ = secure.Close()
	conn.Close()
	return <-got, err
}
