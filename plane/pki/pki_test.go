package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLeafIsMadeAgainOnlyWhenNeeded(t *testing.T) {
	base := Leaf{Name: "server", CommonName: "me", Hosts: []string{"localhost", "127.0.0.1"}}
	cases := map[string]struct {
		change func(t *testing.T, f *Directory, leaf *Leaf)
		again  bool
	}{
		"nothing changed": {func(*testing.T, *Directory, *Leaf) {}, false},
		"less than two thirds of the lifetime have passed": {func(_ *testing.T, f *Directory, _ *Leaf) {
			f.Now = func() time.Time { return time.Now().Add(LeafLifetime - RenewBefore - time.Hour) }
		}, false},
		"more than two thirds of the lifetime have passed": {func(_ *testing.T, f *Directory, _ *Leaf) {
			f.Now = func() time.Time { return time.Now().Add(LeafLifetime - RenewBefore + time.Hour) }
		}, true},
		"an address was added": {func(_ *testing.T, _ *Directory, l *Leaf) { l.Hosts = append(l.Hosts, "10.231.0.1") }, true},
		"a name changed": {func(_ *testing.T, _ *Directory, l *Leaf) {
			l.Hosts = []string{"other", "127.0.0.1"}
		}, true},
		"the user name changed": {func(_ *testing.T, _ *Directory, l *Leaf) { l.CommonName = "you" }, true},
		"a group was added": {
			func(_ *testing.T, _ *Directory, l *Leaf) { l.Groups = []string{"friends"} }, true,
		},
		"the use by clients was added": {func(_ *testing.T, _ *Directory, l *Leaf) { l.Client = true }, true},
		"the key was lost": {
			func(t *testing.T, f *Directory, _ *Leaf) { remove(t, f, "server.key") }, true,
		},
		"the certificate is cut off": {func(t *testing.T, f *Directory, _ *Leaf) {
			if err := os.Truncate(filepath.Join(f.Path, "server.crt"), 100); err != nil {
				t.Fatal(err)
			}
		}, true},
		"the authority was replaced": {func(t *testing.T, f *Directory, _ *Leaf) { remove(t, f, "ca.crt") }, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			directory := Directory{Path: filepath.Join(t.TempDir(), "pki")}
			first, leaf := issue(t, directory, base), base
			c.change(t, &directory, &leaf)
			second := issue(t, directory, leaf)
			if again := !bytes.Equal(first.Cert, second.Cert); again != c.again {
				t.Errorf("was the certificate replaced? got %v, want %v", again, c.again)
			}
		})
	}
}

func issue(t *testing.T, directory Directory, leaf Leaf) Pair {
	t.Helper()
	ca, err := directory.Authority("ca")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := directory.Leaf(ca, leaf)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func remove(t *testing.T, f *Directory, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(f.Path, name)); err != nil {
		t.Fatal(err)
	}
}

func TestAuthorityIsNeverReplaced(t *testing.T) {
	cases := map[string]struct {
		change func(t *testing.T, f *Directory)
		want   string
	}{
		"the authority's key was lost": {func(t *testing.T, f *Directory) { remove(t, f, "ca.key") }, "restore it"},
		"the authority's certificate is empty": {
			func(t *testing.T, f *Directory) { truncate(t, f, "ca.crt") }, "not PEM",
		},
		"the authority has expired": {func(_ *testing.T, f *Directory) {
			f.Now = func() time.Time { return time.Now().Add(AuthorityLifetime + time.Hour) }
		}, "expired on"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			directory := Directory{Path: t.TempDir()}
			issue(t, directory, Leaf{Name: "x"})
			c.change(t, &directory)
			_, err := directory.Authority("ca")
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "remove the directory") {
				t.Errorf("got error %v, want one that says what to do", err)
			}
		})
	}
}

func truncate(t *testing.T, f *Directory, name string) {
	t.Helper()
	if err := os.Truncate(filepath.Join(f.Path, name), 0); err != nil {
		t.Fatal(err)
	}
}

func TestPlane(t *testing.T) {
	directory := Directory{Path: filepath.Join(t.TempDir(), "pki")}
	hosts := []string{"10.231.0.1", "plane.example"}
	first, err := Ensure(directory, hosts)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Ensure(directory, hosts)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.CA.Cert, second.CA.Cert) || !bytes.Equal(first.APIServer.Cert, second.APIServer.Cert) ||
		!bytes.Equal(first.ServiceAccounts.Key, second.ServiceAccounts.Key) {
		t.Error("the second Ensure replaced certificates")
	}
	entries, err := os.ReadDir(directory.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the mode of %s is %v", entry.Name(), info.Mode())
		}
	}

	cases := map[string]struct {
		server, client Pair
		ca             Pair
		host           string
		ok             bool
	}{
		"the admin reaches the API server by its relayed address": {first.APIServer, first.Admin, first.CA,
			"127.0.0.1", true},
		"hosts reach the API server by the bridge": {first.APIServer, first.Admin, first.CA,
			"10.231.0.1", true},
		"pods would reach the API server by its service": {first.APIServer, first.Admin, first.CA,
			"kubernetes.default.svc", true},
		"an option adds a name": {first.APIServer, first.Admin, first.CA,
			"plane.example", true},
		"the API server's certificate has no other names": {first.APIServer, first.Admin, first.CA,
			"evil.example", false},
		"the API server reaches etcd": {first.Etcd, first.EtcdClient, first.EtcdCA,
			"127.0.0.1", true},
		"etcd reaches itself as its peer": {first.Etcd, first.Etcd, first.EtcdCA,
			"127.0.0.1", true},
		"the admin of the API does not reach etcd": {first.Etcd, first.Admin, first.EtcdCA,
			"127.0.0.1", false},
		"etcd's client does not reach the API server": {first.APIServer, first.EtcdClient, first.CA,
			"127.0.0.1", false},
		"the webhook's certificate can't be used by a client": {first.APIServer, first.Webhook, first.CA,
			"127.0.0.1", false},
		"the runtime client reaches the extension": {first.ExtensionServer, first.RuntimeClient, first.CA,
			"127.0.0.1", true},
		"the API server reaches the webhook": {first.Webhook, first.Admin, first.CA,
			"127.0.0.1", true},
		"the API server's certificate can't be used by a client": {first.APIServer, first.APIServer, first.CA,
			"127.0.0.1", false},
		"the service account certificate can't be used by a server": {first.ServiceAccounts, first.Admin, first.CA,
			"127.0.0.1", false},
		"the service account certificate can't be used by a client": {first.APIServer, first.ServiceAccounts, first.CA,
			"127.0.0.1", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := handshake(t, c.server, c.client, c.ca, c.host)
			if (err == nil) != c.ok {
				t.Errorf("got error %v; want success: %v", err, c.ok)
			}
		})
	}
}

// handshake connects a client to a server, both of which trust ca. It returns the errors of both sides.
func handshake(t *testing.T, server, client, ca Pair, host string) error {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.Cert)
	serverCert, err := tls.X509KeyPair(server.Cert, server.Key)
	if err != nil {
		t.Fatal(err)
	}
	clientCert, err := tls.X509KeyPair(client.Cert, client.Key)
	if err != nil {
		t.Fatal(err)
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	for _, end := range []net.Conn{a, b} {
		if err := end.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	serverErr := make(chan error, 1)
	go func() {
		defer a.Close()
		conn := tls.Server(a, &tls.Config{
			Certificates: []tls.Certificate{serverCert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
			SessionTicketsDisabled: true, // the client would not read them, and the pipe is unbuffered
		})
		_, err := conn.Write([]byte("x"))
		serverErr <- err
	}()
	// The client always presents its certificate, even if the server asks for one of another authority. It also reads from
	// the connection, because its part of the handshake is done before the server checks the certificate.
	conn := tls.Client(b, &tls.Config{RootCAs: pool, ServerName: host,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &clientCert, nil }})
	_, err = conn.Read(make([]byte, 1))
	b.Close()
	return errors.Join(err, <-serverErr)
}
