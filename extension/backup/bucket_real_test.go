package backup

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// realStore is the environment variable that makes tests build and use a real S3-compatible store. make test-bucket
// sets it.
const realStore = "CAPSTAN_TEST_BUCKET"

// TestRealBucket does what TestBucket does, and more, with a store written by others (its module is in hack/s3server).
func TestRealBucket(t *testing.T) {
	if os.Getenv(realStore) == "" {
		t.Skip("make test-bucket runs this test: it builds a store, which takes minutes")
	}
	objects, place, credentials := startStore(t)
	for name, prefix := range map[string]string{"with a prefix": "capstan/site-1", "without": ""} {
		t.Run(name, func(t *testing.T) {
			place := place
			place.Bucket, place.Prefix = strings.ReplaceAll(name, " ", "-"), prefix
			directory := filepath.Join(objects, place.Bucket)
			if err := os.Mkdir(directory, 0o755); err != nil {
				t.Fatal(err)
			}
			b, err := OpenBucket(place, credentials)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			keepsBackups(t, b, func(key string, data []byte) {
				path := filepath.Join(directory, key)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
	refusesStrangers(t, place, credentials, "404 Not Found XAdminUserNotFound")
	t.Run("more than one page", func(t *testing.T) { manyBackups(t, place, credentials) })
	t.Run("a large snapshot", func(t *testing.T) { largeBackup(t, place, credentials) })
}

// manyBackups has more objects than a listing holds.
func manyBackups(t *testing.T, place Place, credentials Credentials) {
	place.Prefix = "many"
	b, err := OpenBucket(place, credentials)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	const backups = 510 // two objects each
	sum := sha256.Sum256(nil)
	file := filepath.Join(t.TempDir(), "snapshot")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range backups {
		at := time.Date(2026, 1, 2, 3, i/60, i%60, 0, time.UTC)
		m := Manifest{
			Name: nameOf(at, ReasonManual), Namespace: "default", Cluster: "blue", Reason: ReasonManual, Time: at,
			SHA256: hex.EncodeToString(sum[:]),
		}
		if err := b.Add(t.Context(), m, file); err != nil {
			t.Fatal(err)
		}
	}
	if keys, err := b.keys(t.Context(), "many/"); err != nil || len(keys) != 2*backups {
		t.Errorf("%d objects, %v; want %d", len(keys), err, 2*backups)
	}
}

// largeBackup stores and fetches a snapshot of etcd's default maximum size.
func largeBackup(t *testing.T, place Place, credentials Credentials) {
	const size = 2 << 30
	b, err := OpenBucket(place, credentials)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	file := filepath.Join(t.TempDir(), "snapshot")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	_, _ = rand.Read(block)
	sum := sha256.New()
	for range size / len(block) {
		if _, err := io.MultiWriter(f, sum).Write(block); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Now().UTC().Truncate(time.Second)
	m := Manifest{
		Name: nameOf(at, ReasonManual), Namespace: "default", Cluster: "large", Reason: ReasonManual, Time: at, Size: size,
		SHA256: hex.EncodeToString(sum.Sum(nil)),
	}
	began := time.Now()
	if err := b.Add(t.Context(), m, file); err != nil {
		t.Fatal(err)
	}
	kept := time.Now()
	if err := b.Fetch(t.Context(), m, file+".fetched"); err != nil {
		t.Fatal(err)
	}
	t.Logf("2 GiB: kept in %s, fetched in %s", kept.Sub(began).Round(time.Second), time.Since(kept).Round(time.Second))
}

// startStore builds a store and starts it on loopback, with https. Its buckets are the subdirectories of the returned
// directory, which contains "backups".
func startStore(t *testing.T) (objects string, place Place, credentials Credentials) {
	t.Helper()
	directory := t.TempDir()
	binary := filepath.Join(directory, "store")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/versity/versitygw/cmd/versitygw")
	build.Dir = filepath.Join("..", "..", "hack", "s3server")
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building a store: %v\n%s", err, out)
	}
	// Use the certificate for 127.0.0.1 that httptest servers have.
	server := httptest.NewTLSServer(http.NotFoundHandler())
	pair := server.TLS.Certificates[0]
	server.Close()
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	for name, data := range map[string][]byte{
		"tls.crt": certificate, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	} {
		if err := os.WriteFile(filepath.Join(directory, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	objects = filepath.Join(directory, "objects")
	for _, name := range []string{filepath.Join(objects, "backups"), filepath.Join(directory, "attributes")} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()

	var said bytes.Buffer
	cmd := exec.Command(binary, "--quiet", "--port", address, "--cert", filepath.Join(directory, "tls.crt"), "--key",
		filepath.Join(directory, "tls.key"),
		"posix", "--sidecar", filepath.Join(directory, "attributes"), objects)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY=AKID", "ROOT_SECRET_KEY=SECRET")
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &said, &said, endWithParent()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	place = Place{Endpoint: "https://" + address, Bucket: "backups", Region: "us-east-1"}
	credentials = Credentials{AccessKeyID: "AKID", SecretAccessKey: "SECRET", CA: certificate}
	b, err := OpenBucket(place, credentials)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if _, err = b.List(t.Context(), "", ""); err == nil {
			return objects, place, credentials
		}
		if time.Now().After(end) {
			t.Fatal(fmt.Errorf("the store does not answer: %w", err))
		}
	}
}
