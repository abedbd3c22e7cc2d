//go:build linux

package registry_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/image/registry"
	"github.com/capstan-dev/capstan/image/service"
	"github.com/capstan-dev/capstan/image/store"
)

// world is a registry on loopback and a store.
type world struct {
	t       *testing.T
	dir     string
	host    string // HOST:PORT of the registry
	server  *httptest.Server
	store   *store.Store
	puller  *registry.Puller
	between atomic.Pointer[func(http.ResponseWriter, *http.Request) bool] // returns true if it answered the request

	mu       sync.Mutex
	requests []string
}

// newWorld creates a world. If users are given, the registry requires the password of one of them.
func newWorld(t *testing.T, users ...string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	inner := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	w.server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		w.mu.Lock()
		w.requests = append(w.requests, in.Method+" "+in.URL.Path+" "+in.Header.Get("Range"))
		w.mu.Unlock()
		user, password, _ := in.BasicAuth()
		if len(users) > 0 && (password != "secret of "+user || !strings.Contains(strings.Join(users, " "), user)) {
			out.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(out, `{"errors":[{"code":"UNAUTHORIZED","message":"internal words of the registry"}]}`,
				http.StatusUnauthorized)
			return
		}
		if f := w.between.Load(); f != nil && (*f)(out, in) {
			return
		}
		inner.ServeHTTP(out, in)
	}))
	t.Cleanup(w.server.Close)
	w.host = strings.TrimPrefix(w.server.URL, "http://")
	w.config("hostsMayReach: ['" + w.host + "']\n")
	w.open()
	return w
}

func (w *world) config(text string) {
	if err := os.WriteFile(filepath.Join(w.dir, "registries.yaml"), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// open opens the store.
func (w *world) open() {
	w.t.Helper()
	var err error
	if w.store, err = store.Open(store.Options{Dir: filepath.Join(w.dir, "images"), MinFree: 1}); err != nil {
		w.t.Fatal(err)
	}
	w.puller, err = registry.New(w.store, filepath.Join(w.dir, "registries.yaml"), filepath.Join(w.dir, "accepted.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.puller.First = time.Millisecond
	w.puller.Keychain = authn.NewMultiKeychain()
	s := w.store
	w.t.Cleanup(func() { s.Close() })
}

// layerOf returns a layer with a file of n incompressible bytes.
func layerOf(t *testing.T, file string, n int) v1.Layer {
	t.Helper()
	data := make([]byte, n)
	random := rand.NewChaCha8([32]byte{byte(len(file)), byte(n)})
	random.Read(data)
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&tar.Header{Name: file, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(n)}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(out.Bytes())), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func imageOf(t *testing.T, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err == nil {
		var c *v1.ConfigFile
		if c, err = img.ConfigFile(); err == nil {
			c = c.DeepCopy()
			c.OS, c.Architecture = "linux", runtime.GOARCH
			img, err = mutate.ConfigFile(img, c)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// push puts an image into the registry, and returns its name and digest.
func (w *world) push(repo string, img v1.Image, auth authn.Authenticator) (ref, digest string) {
	w.t.Helper()
	ref = w.host + "/" + repo
	parsed, err := name.ParseReference(ref)
	if err != nil {
		w.t.Fatal(err)
	}
	if auth == nil {
		auth = authn.Anonymous
	}
	if err := remote.Write(parsed, img, remote.WithAuth(auth)); err != nil {
		w.t.Fatal(err)
	}
	h, err := img.Digest()
	if err != nil {
		w.t.Fatal(err)
	}
	w.forget()
	return ref, h.String()
}

func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = nil
}

// count counts the requests whose method and path contain all these words.
func (w *world) count(words ...string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, r := range w.requests {
		all := true
		for _, word := range words {
			all = all && strings.Contains(r, word)
		}
		if all {
			n++
		}
	}
	return n
}

// pull pulls for a host.
func (w *world) pull(ref string, auth *image.Auth) (string, error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	canonical, err := image.Canonical(ref)
	if err != nil {
		w.t.Fatal(err)
	}
	defer w.store.Use()()
	return w.puller.Pull(ctx, canonical, service.Asker{Host: true, Auth: auth}, func(string) {})
}

func (w *world) must(ref string, auth *image.Auth) string {
	w.t.Helper()
	digest, err := w.pull(ref, auth)
	if err != nil {
		w.t.Fatal(err)
	}
	return digest
}

// refused checks an error's code and a part of its text.
func refused(t *testing.T, err error, code image.Code, part string) {
	t.Helper()
	var typed *image.Error
	if !errors.As(err, &typed) || typed.Code != code || !strings.Contains(typed.Message, part) {
		t.Errorf("error %v (%+v), want %s with %q", err, typed, code, part)
	}
}
