//go:build linux

package registry_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/image/registry"
	"github.com/capstan-dev/capstan/image/service"
)

func TestPullByTagAndDigest(t *testing.T) {
	w := newWorld(t)
	ref, digest := w.push("team/web:1", imageOf(t, layerOf(t, "a", 1000), layerOf(t, "b", 2000)), nil)
	for _, name := range []string{ref, w.host + "/team/web@" + digest} {
		if got := w.must(name, nil); got != digest {
			t.Errorf("%s is %s, want %s", name, got, digest)
		}
	}
	img, err := w.store.Describe(digest)
	if err != nil || len(img.Layers) != 2 {
		t.Fatalf("%+v, %v", img, err)
	}
	if n := w.count("GET", "/blobs/"); n != 3 {
		t.Errorf("%d blobs were fetched, want each of the 3 once", n)
	}
}

func TestPullChoosesThePlatform(t *testing.T) {
	w := newWorld(t)
	mine := imageOf(t, layerOf(t, "a", 10))
	add := func(i v1.ImageIndex, arch string, img v1.Image) v1.ImageIndex {
		p := &v1.Platform{OS: "linux", Architecture: arch}
		return mutate.AppendManifests(i, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: p}})
	}
	other := imageOf(t, layerOf(t, "b", 10))
	index := add(add(empty.Index, "vax", other), runtime.GOARCH, mine)
	for tag, i := range map[string]v1.ImageIndex{"both": index, "other": add(empty.Index, "vax", other)} {
		ref, err := name.ParseReference(w.host + "/web:" + tag)
		if err == nil {
			err = remote.WriteIndex(ref, i)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want, err := mine.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if got := w.must(w.host+"/web:both", nil); got != want.String() {
		t.Errorf("pulled %s, want %s", got, want)
	}
	if _, err := w.pull(w.host+"/web:other", nil); err == nil || !strings.Contains(err.Error(), "linux/vax") {
		t.Errorf("error %v", err)
	}
}

var (
	alice = &image.Auth{Username: "alice", Password: "secret of alice"}
	bob   = &image.Auth{Auth: base64.StdEncoding.EncodeToString([]byte("bob:secret of bob"))}
	eve   = &image.Auth{Username: "eve", Password: "secret of alice"}
)

func basic(a *image.Auth) authn.Authenticator {
	return &authn.Basic{Username: a.Username, Password: a.Password}
}

func TestEachPullNeedsItsOwnCredential(t *testing.T) {
	w := newWorld(t, "alice", "bob")
	ref, digest := w.push("private/web:1", imageOf(t, layerOf(t, "a", 1000)), basic(alice))
	_, err := w.pull(ref, nil)
	refused(t, err, image.CodeDenied, "requires a credential")
	if strings.Contains(err.Error(), "internal words") {
		t.Errorf("the host's error contains the registry's words: %v", err)
	}
	if got := w.must(ref, alice); got != digest {
		t.Errorf("pulled %s", got)
	}
	// The image is in the store, but nobody else may get it, not even by its digest.
	for _, name := range []string{ref, w.host + "/private/web@" + digest} {
		_, err = w.pull(name, nil)
		refused(t, err, image.CodeDenied, "requires a credential")
		_, err = w.pull(name, eve)
		refused(t, err, image.CodeDenied, "denies it to this credential")
	}
	w.forget()
	w.must(ref, bob)
	if w.count("GET", "/manifests/") == 0 || w.count("GET", "/blobs/") != 0 || w.count("HEAD", "/blobs/") != 2 {
		t.Errorf("requests %v, want one for the manifest, a check of each blob's access, and no blob fetched again",
			w.requests)
	}
}

func TestARegistryThatIsAwayGivesWhatItHasGiven(t *testing.T) {
	w := newWorld(t, "alice", "bob")
	ref, digest := w.push("private/web:1", imageOf(t, layerOf(t, "a", 1000)), basic(alice))
	w.must(ref, alice)
	down := func(out http.ResponseWriter, _ *http.Request) bool {
		http.Error(out, "down", http.StatusServiceUnavailable)
		return true
	}
	w.between.Store(&down)
	if got := w.must(ref, alice); got != digest {
		t.Errorf("pulled %s", got)
	}
	_, err := w.pull(ref, bob)
	refused(t, err, image.CodeUnavailable, "is not working")
	w.server.Close()
	if got := w.must(ref, alice); got != digest {
		t.Errorf("pulled %s", got)
	}
	for _, other := range []*image.Auth{nil, bob, eve} {
		_, err = w.pull(ref, other)
		refused(t, err, image.CodeUnavailable, "can't be reached")
	}
}

// An attacker's registry refers to the digest of a private layer of another registry without serving the layer.
func TestALayerOfAnotherRegistryIsNotGivenAway(t *testing.T) {
	private, thief := newWorld(t), newWorld(t)
	secret := layerOf(t, "secret", 1000)
	img := imageOf(t, secret)
	ref, _ := private.push("private/web:1", img, nil)
	thief.push("my/web:1", img, nil)
	h, err := secret.Digest()
	if err != nil {
		t.Fatal(err)
	}
	pretends := func(out http.ResponseWriter, in *http.Request) bool {
		if !strings.HasSuffix(in.URL.Path, h.String()) {
			return false
		}
		if in.Method == http.MethodGet {
			http.NotFound(out, in)
		}
		return true // 200 for HEAD
	}
	thief.between.Store(&pretends)
	private.config(fmt.Sprintf("hostsMayReach: ['%s', '%s']\n", private.host, thief.host))
	private.must(ref, nil)
	if _, err := private.pull(thief.host+"/my/web:1", nil); err == nil {
		t.Error("the pull from the thief's registry got the private layer")
	}
}

func TestABrokenDownloadGoesOn(t *testing.T) {
	w := newWorld(t)
	const size = 300_000
	l := layerOf(t, "a", size)
	ref, digest := w.push("web:1", imageOf(t, l), nil)
	h, err := l.Digest()
	if err != nil {
		t.Fatal(err)
	}
	blob, err := l.Compressed()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(blob)
	if err != nil {
		t.Fatal(err)
	}
	breaks := func(out http.ResponseWriter, in *http.Request) bool {
		if in.Method != http.MethodGet || !strings.HasSuffix(in.URL.Path, h.String()) {
			return false
		}
		begin := 0
		if _, err := fmt.Sscanf(in.Header.Get("Range"), "bytes=%d-", &begin); err == nil {
			out.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", begin, len(data)-1, len(data)))
			out.Header().Set("Content-Length", fmt.Sprint(len(data)-begin))
			out.WriteHeader(http.StatusPartialContent)
		} else {
			out.Header().Set("Content-Length", fmt.Sprint(len(data)))
		}
		out.Write(data[begin:min(begin+100_000, len(data))])
		return true // shorter than announced, so the server breaks the connection
	}
	w.between.Store(&breaks)
	if got := w.must(ref, nil); got != digest {
		t.Errorf("pulled %s", got)
	}
	if w.count("GET", h.String(), "bytes=100000-") != 1 || w.count("GET", h.String(), "bytes=200000-") != 1 {
		t.Errorf("requests %v", w.requests)
	}
}

func TestAPullGoesOnAfterARestart(t *testing.T) {
	w := newWorld(t)
	l := layerOf(t, "a", 300_000)
	ref, digest := w.push("web:1", imageOf(t, l), nil)
	h, err := l.Digest()
	if err != nil {
		t.Fatal(err)
	}
	var broke atomic.Bool
	breaks := func(out http.ResponseWriter, in *http.Request) bool {
		if in.Method != http.MethodGet || !strings.HasSuffix(in.URL.Path, h.String()) {
			return false
		}
		if broke.Swap(true) {
			http.Error(out, "gone", http.StatusForbidden)
			return true
		}
		blob, err := l.Compressed()
		if err == nil {
			out.Header().Set("Content-Length", "300000")
			io.CopyN(out, blob, 123_456)
		}
		return true
	}
	w.between.Store(&breaks)
	if _, err := w.pull(ref, nil); err == nil {
		t.Fatal("the pull was not interrupted")
	}
	w.between.Store(nil)
	w.store.Close()
	w.open()
	w.forget()
	if got := w.must(ref, nil); got != digest {
		t.Errorf("pulled %s", got)
	}
	if w.count("GET", h.String(), "bytes=123456-") != 1 {
		t.Errorf("requests %v", w.requests)
	}
}

func TestWhatARegistryServesIsChecked(t *testing.T) {
	l := layerOf(t, "a", 1000)
	h, err := l.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request) bool
		code   image.Code
		want   string
	}{
		"another blob of the same size": {func(out http.ResponseWriter, in *http.Request) bool {
			size, _ := l.Size()
			if strings.HasSuffix(in.URL.Path, h.String()) {
				out.Write(make([]byte, size))
				return true
			}
			return false
		}, "", "does not match its digest"},
		"a blob that is too long": {func(out http.ResponseWriter, in *http.Request) bool {
			if strings.HasSuffix(in.URL.Path, h.String()) {
				for range 1000 {
					out.Write(make([]byte, 10_000))
				}
				return true
			}
			return false
		}, "", "larger than"},
		"a manifest that is too long": {func(out http.ResponseWriter, in *http.Request) bool {
			if strings.Contains(in.URL.Path, "/manifests/") {
				for range 1000 {
					out.Write(make([]byte, 10_000))
				}
				return true
			}
			return false
		}, "", "manifest has more than"},
		"an invalid manifest": {func(out http.ResponseWriter, in *http.Request) bool {
			if strings.Contains(in.URL.Path, "/manifests/") {
				io.WriteString(out, "<html>")
				return true
			}
			return false
		}, "", "can't be read"},
		"a missing image": {func(out http.ResponseWriter, in *http.Request) bool {
			if strings.Contains(in.URL.Path, "/manifests/") {
				http.NotFound(out, in)
				return true
			}
			return false
		}, image.CodeNotFound, "has no such image"},
		"a rate limit": {func(out http.ResponseWriter, in *http.Request) bool {
			http.Error(out, "slow down", http.StatusTooManyRequests)
			return true
		}, image.CodeUnavailable, "limits the rate"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ref, _ := w.push("web:1", imageOf(t, l), nil)
			w.between.Store(&c.answer)
			_, err := w.pull(ref, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			var typed *image.Error
			if errors.As(err, &typed) && typed.Code != c.code {
				t.Errorf("code %s, want %s", typed.Code, c.code)
			}
		})
	}
}

func TestMirrorsComeFirstAndGetNoCredential(t *testing.T) {
	w, mirror := newWorld(t, "alice"), newWorld(t)
	img := imageOf(t, layerOf(t, "a", 1000))
	ref, _ := w.push("web:1", img, basic(alice))
	mirror.push("web:1", img, nil)
	w.config(fmt.Sprintf("mirrors: {'%s': ['127.0.0.1:1', '%s']}\nhostsMayReach: ['%s', '%s', '127.0.0.1:1']\n",
		w.host, mirror.host, w.host, mirror.host))
	w.must(ref, nil)
	if w.count() != 0 || mirror.count("GET", "/blobs/") == 0 {
		t.Errorf("the registry got the requests %v, the mirror %v", w.requests, mirror.requests)
	}
	mirror.forget()
	w.must(ref, alice)
	if mirror.count() != 0 || w.count("GET", "/manifests/") == 0 {
		t.Errorf("with a credential, the mirror got the requests %v", mirror.requests)
	}
}

func TestHostsReachNothingOnThisMachine(t *testing.T) {
	w := newWorld(t)
	ref, digest := w.push("web:1", imageOf(t, layerOf(t, "a", 10)), nil)
	w.config("")
	_, err := w.pull(ref, nil)
	refused(t, err, image.CodeDenied, "hosts may not reach")
	for _, address := range []string{"localhost", "[::1]", "169.254.169.254", "0.0.0.0"} {
		_, err := w.pull(address+":1/web:1", nil)
		if err == nil || !strings.Contains(err.Error(), "hosts may not reach") {
			t.Errorf("%s: error %v", address, err)
		}
	}
	// The machine's user may pull from a registry on this machine.
	got, err := w.puller.Pull(context.Background(), ref, service.Asker{}, func(string) {})
	if err != nil || got != digest {
		t.Errorf("%s, %v", got, err)
	}
}

func TestTheMachinesCredentialsAreNotForHosts(t *testing.T) {
	w := newWorld(t, "alice")
	ref, _ := w.push("private/web:1", imageOf(t, layerOf(t, "a", 10)), basic(alice))
	w.puller.Keychain = keychain{basic(alice)}
	if _, err := w.puller.Pull(context.Background(), ref, service.Asker{}, func(string) {}); err != nil {
		t.Errorf("a pull by the machine's user: %v", err)
	}
	_, err := w.pull(ref, nil)
	refused(t, err, image.CodeDenied, "requires a credential")
}

type keychain struct{ authn.Authenticator }

func (k keychain) Resolve(authn.Resource) (authn.Authenticator, error) { return k.Authenticator, nil }

func TestConfigRefusesWhatItDoesNotKnow(t *testing.T) {
	for text, want := range map[string]string{
		"mirror: {}\n":                          "unknown field",
		"mirrors: {docker.io: ['https://x']}\n": "is not a registry",
		"mirrors: [":                            "registries.yaml",
	} {
		path := filepath.Join(t.TempDir(), "registries.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := registry.LoadConfig(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v", text, err)
		}
	}
}
