package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/extension"
	"github.com/capstan-dev/capstan/runtime/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWrongCalls(t *testing.T) {
	directory := t.TempDir()
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no certificate":            {nil, 2, "the server needs a certificate"},
		"a certificate in two ways": {[]string{"--cert-dir", directory, "--key-file", "k"}, 2, "one or the other"},
		"a Secret and files": {[]string{"--cert-dir", directory, "--cert-secret", "a/b"}, 2,
			"--cert-secret excludes certificate files"},
		"a Secret without namespace": {[]string{"--cert-secret", "b", "--cert-hosts", "localhost"}, 2,
			"write it as namespace/name"},
		"a Secret without names": {[]string{"--cert-secret", "a/b"}, 2, "give --cert-hosts"},
		"names without a Secret": {[]string{"--cert-dir", directory, "--cert-hosts", "localhost"}, 2,
			"also give --cert-secret"},
		"backups without a bundle": {
			[]string{"--cert-dir", directory, "--backups", directory}, 2, "also give --bundle",
		},
		"a relative backups path": {
			[]string{"--cert-dir", directory, "--backups", "backups"}, 2, "give an absolute path",
		},
		"a bundle that does not exist": {[]string{"--cert-dir", directory, "--bundle", directory + "/none"}, 2,
			"--bundle: looking for an etcd"},
		"an unknown flag": {[]string{"--nonsense"}, 2, "nonsense"},
		"an argument":     {[]string{"--cert-dir", directory, "up"}, 2, `unexpected argument "up"`},
		"help":            {[]string{"--help"}, 0, "-client-ca-file"},
		"a missing kubeconfig": {[]string{"--cert-dir", directory, "--kubeconfig", directory + "/none"}, 1,
			"reading how to reach the management cluster"},
		"neither kubeconfig nor pod": {[]string{"--cert-dir", directory}, 1, "reading how to reach the management cluster"},
		"a directory without a certificate": {
			[]string{"--cert-dir", directory, "--kubeconfig", kubeconfig(t, "https://127.0.0.1:1")}, 1, "tls.crt: no such file",
		},
		"an invalid address": {
			[]string{"--cert-dir", directory, "--kubeconfig", kubeconfig(t, "https://127.0.0.1:1"), "--healthz", "256.0.0.1:1"},
			1, "serving --healthz",
		},
		"the version": {[]string{"--version"}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			var out, errs bytes.Buffer
			if code := run(t.Context(), c.args, &out, &errs); code != c.code || !strings.Contains(errs.String(), c.want) {
				t.Errorf("got exit code %d and the output %s", code, errs.String())
			}
		})
	}
}

// TestRun runs the whole program: it serves hooks to the plane's client over mutual TLS, reports its health, and stops
// on request.
func TestRun(t *testing.T) {
	directory := t.TempDir()
	own := pair(t, directory)
	health := freeAddress(t)
	ctx, cancel := context.WithCancel(context.Background())
	log := &lines{}
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{
			"--kubeconfig", kubeconfig(t, apiServer(t)), "--listen", "127.0.0.1:0", "--cert-dir", directory,
			"--client-ca-file", filepath.Join(directory, "tls.crt"), "--healthz", health,
		}, io.Discard, log)
	}()
	ended := sync.OnceValue(func() int { cancel(); return <-code })
	defer ended()
	address := log.find(t, "address")

	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		answer, err := http.Get("http://" + health + path)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("getting %s: %v, error %v", path, answer, err)
		} else {
			_ = answer.Body.Close()
		}
	}
	http.DefaultClient.CloseIdleConnections()

	calls, err := client.New(client.Options{Certificate: func() (*tls.Certificate, error) { return &own, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer calls.Close()
	if err := calls.WarmUp(&runtimev1.ExtensionConfigList{}); err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(directory, "tls.crt"))
	if err != nil {
		t.Fatal(err)
	}
	discovered, err := calls.Discover(t.Context(), extension.Config("https://"+address, ca))
	if err != nil {
		t.Fatal(err)
	}
	if err := calls.Register(discovered); err != nil {
		t.Fatal(err)
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue"}}
	cluster.Spec.Topology.ClassRef.Name = "local"
	response := &runtimehooksv1.BeforeClusterCreateResponse{}
	err = calls.CallAllExtensions(t.Context(), runtimehooksv1.BeforeClusterCreate, cluster,
		&runtimehooksv1.BeforeClusterCreateRequest{Cluster: *cluster}, response)
	if err != nil || response.RetryAfterSeconds != 5 ||
		response.Message != "cluster needs 1 host, there are none: add hosts, or make the cluster smaller" {
		t.Errorf("the response of the hook is %+v, error %v", response, err)
	}
	if got := ended(); got != 0 {
		t.Errorf("the exit code is %d", got)
	}
}

// apiServer answers the gate's requests with one of our classes and empty lists. The end-to-end tests use a real API
// server.
func apiServer(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, text)
		}
	}
	mux := http.NewServeMux()
	core, ours := "cluster.x-k8s.io/v1beta2", "infrastructure.capstan.dev/v1beta2"
	mux.HandleFunc("/apis/"+core+"/namespaces/default/clusters",
		write(`{"kind":"ClusterList","apiVersion":"`+core+`","items":[]}`))
	mux.HandleFunc("/apis/"+core+"/namespaces/default/machines",
		write(`{"kind":"MachineList","apiVersion":"`+core+`","items":[]}`))
	mux.HandleFunc("/apis/"+ours+"/namespaces/default/capstanhosts",
		write(`{"kind":"CapstanHostList","apiVersion":"`+ours+`","items":[]}`))
	mux.HandleFunc("/apis/"+core+"/namespaces/default/clusterclasses/local",
		write(`{"kind":"ClusterClass","apiVersion":"`+core+`","metadata":{"name":"local","namespace":"default"},
		"spec":{"controlPlane":{"machineInfrastructure":{"templateRef":{"apiVersion":"`+ours+
			`","kind":"CapstanMachineTemplate","name":"t"}}}}}`))
	mux.HandleFunc("/apis/"+ours+"/namespaces/default/capstanmachinetemplates/t",
		write(`{"kind":"CapstanMachineTemplate","apiVersion":"`+ours+`","metadata":{"name":"t","namespace":"default"}}`))
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Serve(listener) }()
	t.Cleanup(func() { _ = s.Close(); <-ended })
	return "http://" + listener.Addr().String()
}

func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":"` + server + `"}}],"users":[{"name":"u","user":{}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// pair writes a self-signed certificate, for server and client, and returns it.
func pair(t *testing.T, directory string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	for name, data := range map[string][]byte{"tls.crt": certPEM, "tls.key": keyPEM} {
		if err := os.WriteFile(filepath.Join(directory, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// lines collects a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// find waits for a line with this key and returns its value.
func (l *lines) find(t *testing.T, key string) string {
	t.Helper()
	deadline, tick := time.After(20*time.Second), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for {
		l.mu.Lock()
		text := l.text.String()
		l.mu.Unlock()
		for line := range strings.Lines(text) {
			var values map[string]any
			if json.Unmarshal([]byte(line), &values) == nil && values[key] != nil {
				return fmt.Sprint(values[key])
			}
		}
		select {
		case <-deadline:
			t.Fatalf("the log has no %s: %s", key, text)
		case <-tick.C:
		}
	}
}
