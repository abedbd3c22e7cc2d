package etcdmember

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// manifest is etcd's manifest as kubeadm writes it.
const manifest = `apiVersion: v1
kind: Pod
spec:
  containers:
  - command:
    - etcd
    - --advertise-client-urls=https://10.0.0.3:2379
    - --initial-advertise-peer-urls=https://10.0.0.3:2380
    - --initial-cluster=a=https://10.0.0.1:2380,c=https://10.0.0.3:2380,b=https://[fd00::2]:2380
    - --name=c
`

func TestFind(t *testing.T) {
	cases := map[string]struct {
		manifest string
		want     *Member
		err      bool
	}{
		"a member of three": {
			manifest, &Member{
				PeerURLs: []string{"https://10.0.0.3:2380"}, Others: []string{"https://10.0.0.1:2379", "https://[fd00::2]:2379"},
			}, false,
		},
		"the first member": {
			strings.Replace(manifest, "a=https://10.0.0.1:2380,c=https://10.0.0.3:2380,b=https://[fd00::2]:2380",
				"c=https://10.0.0.3:2380", 1), nil, false,
		},
		"no manifest":                   {"", nil, false},
		"a manifest of another program": {"spec: {containers: [{command: [sleep]}]}", nil, false},
		"a manifest that was cut off":   {"spec: [", nil, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.MkdirAll(filepath.Join(dir, "manifests"), 0o700); err != nil {
				t.Fatal(err)
			}
			if c.manifest != "" {
				if err := os.WriteFile(filepath.Join(dir, "manifests", "etcd.yaml"), []byte(c.manifest), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := Find(dir)
			if got != nil {
				got.CA, got.Cert, got.Key = "", "", ""
			}
			if (err != nil) != c.err || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// cluster simulates the other members: etcd's JSON API with client certificates. The first calls fail, as many as the
// field failures says.
type cluster struct {
	members  map[string]string // peer URL by ID
	failures int
	failed   func(left int) // called before a call fails; nil for none
	bodies   []string
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.bodies = append(c.bodies, r.URL.Path+" "+string(body))
	if c.failures > 0 {
		c.failures--
		if c.failed != nil {
			c.failed(c.failures)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	switch r.URL.Path {
	case "/v3/cluster/member/list":
		var members []map[string]any
		for id, peer := range c.members {
			members = append(members, map[string]any{"ID": id, "peerURLs": []string{peer}})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"members": members})
	case "/v3/cluster/member/remove":
		var in struct{ ID string }
		_ = json.Unmarshal(body, &in)
		delete(c.members, in.ID)
		_, _ = io.WriteString(w, "{}")
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// serve starts the cluster and returns a member with credentials for it.
func serve(t *testing.T, c *cluster) *Member {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	m := &Member{
		PeerURLs: []string{"https://10.0.0.3:2380"}, CA: filepath.Join(dir, "ca"), Cert: filepath.Join(dir, "ca"),
		Key: filepath.Join(dir, "key"),
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})
	for path, data := range map[string][]byte{m.CA: cert, m.Key: keyPEM} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.X509KeyPair(cert, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	server := httptest.NewUnstartedServer(c)
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	m.Others = []string{"https://127.0.0.1:1", server.URL} // the first one does not respond
	return m
}

func TestLeave(t *testing.T) {
	cases := map[string]struct {
		members  map[string]string
		failures int
		left     int
	}{
		"the member is removed": {
			map[string]string{"11": "https://10.0.0.1:2380", "17616123584097825476": "https://10.0.0.3:2380"}, 0, 1,
		},
		"the cluster does not know the member":          {map[string]string{"11": "https://10.0.0.1:2380"}, 0, 1},
		"the cluster fails at first, and Leave retries": {map[string]string{"33": "https://10.0.0.3:2380"}, 2, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			other := &cluster{members: c.members, failures: c.failures}
			m := serve(t, other)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if err := m.Leave(ctx); err != nil {
				t.Fatal(err)
			}
			if len(other.members) != c.left {
				t.Errorf("members left: %v; calls %q", other.members, other.bodies)
			}
		})
	}
}

// TestLeaveIsBounded ends the context during the second round: Leave returns the error of the first round.
func TestLeaveIsBounded(t *testing.T) {
	const failures = 1 << 20
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := serve(t, &cluster{failures: failures, failed: func(left int) {
		if left == failures-2 {
			cancel()
		}
	}})
	if err := m.Leave(ctx); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("got %v", err)
	}
}
