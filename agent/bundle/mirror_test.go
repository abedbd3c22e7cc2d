package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/agent/fault"
	"github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/bundlefile"
)

const mirrored = "v1.36.3"

func sum(data []byte) string {
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:])
}

// knowing returns a plane that has the digest of a bundle, but no bundle.
func knowing(t *testing.T, digest string) *Plane {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/bundle/"+mirrored+"/linux/"+runtime.GOARCH+".sha256" || digest == "" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(digest + "\n"))
	}))
	t.Cleanup(server.Close)
	return &Plane{URL: server.URL, HTTP: server.Client()}
}

func TestMirror(t *testing.T) {
	data := archived(t, mirrored)
	file := "/capstan/" + bundlefile.FileName(mirrored, runtime.GOARCH)
	serve := func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Unix(0, 0), bytes.NewReader(data))
	}
	const gone = "127.0.0.1:1" // nothing listens there
	for name, c := range map[string]struct {
		serve   http.HandlerFunc
		digests []string
		plane   *Plane
		begun   string // what an earlier attempt left, with the tag "1"
		fails   string
	}{
		"the plane knows the digest":     {serve: serve, plane: knowing(t, sum(data))},
		"the policy knows the digest":    {serve: serve, digests: []string{sum(nil), sum(data)}},
		"the policy overrules the plane": {serve: serve, digests: []string{sum(data)}, plane: knowing(t, sum(nil))},
		"the mirror has another file":    {serve: serve, digests: []string{sum(nil)}, fails: "is not one of " + sum(nil)},
		"no digests and no plane":        {serve: serve, fails: "knows no plane"},
		"the plane lacks the digest":     {serve: serve, plane: knowing(t, ""), fails: "capstan bundle import FILE"},
		"the plane answers with HTML":    {serve: serve, plane: knowing(t, "<html>"), fails: "upgrade the plane"},
		"the mirror is empty":            {serve: http.NotFound, digests: []string{sum(data)}, fails: "the mirror has no"},
		"the mirror wants a password": {
			serve:   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
			digests: []string{sum(data)}, fails: "401 Unauthorized",
		},
		"the mirror redirects": {
			serve: func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == file {
					http.Redirect(w, r, "/elsewhere", http.StatusFound)
					return
				}
				if len(r.Header["Referer"])+len(r.Header["Authorization"])+len(r.Header["Cookie"]) > 0 {
					t.Errorf("the redirected request has the headers %v", r.Header)
				}
				serve(w, r)
			},
			digests: []string{sum(data)},
		},
		"the mirror redirects forever": {
			serve:   func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) },
			digests: []string{sum(data)}, fails: "redirects more than 5 times",
		},
		"the mirror redirects to a file": {
			serve: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "file:///etc/shadow", http.StatusFound)
			},
			digests: []string{sum(data)}, fails: "redirects from https to file",
		},
		"the mirror redirects to an address with a password": {
			serve: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://me:secret@"+gone, http.StatusFound)
			},
			digests: []string{sum(data)}, fails: "an address with a password",
		},
		"an earlier attempt downloaded another file": {
			serve: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("ETag", `"1"`)
				serve(w, r)
			},
			digests: []string{sum(data)}, begun: "another",
		},
		"an earlier attempt downloaded the whole bundle": {
			serve: func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("If-Range") != `"1"` {
					t.Error("the download started over")
				}
				w.Header().Set("ETag", `"1"`)
				serve(w, r)
			},
			digests: []string{sum(data)}, begun: string(data),
		},
		"the mirror continues at another position": {
			serve: func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Range") != "" {
					w.Header().Set("Content-Range", "bytes 1-2/3")
					w.WriteHeader(http.StatusPartialContent)
					return
				}
				serve(w, r)
			},
			digests: []string{sum(data)}, begun: "another",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(c.serve)
			t.Cleanup(server.Close)
			dir := t.TempDir()
			if c.begun != "" {
				part := filepath.Join(dir, "."+filepath.Base(file)+".part")
				for path, text := range map[string]string{part: c.begun, part + ".etag": `"1"`} {
					if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			err := Provide(t.Context(), dir, mirrored, Source{
				Policy: FromMirror, Plane: c.plane, Mirror: Mirror{URL: server.URL + "/capstan/", Digests: c.digests},
			})
			if c.fails == "" && err != nil || c.fails != "" && !strings.Contains(fault.Text(err, ""), c.fails) {
				t.Fatalf("got %v, want %q", err, c.fails)
			}
			if m, err := Node(dir, mirrored); err != nil || (m != nil) != (c.fails == "") {
				t.Errorf("the host has %v, %v", m, err)
			}
		})
	}
}

// A download from a mirror whose connections break loses nothing, if the mirror says which file it sends.
func TestADownloadFromAMirrorGoesOnWhereItWas(t *testing.T) {
	data, ranges := archived(t, mirrored), make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ranges <- r.Header.Get("Range")
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(&cutter{ResponseWriter: w, left: len(data) * 2 / 3}, r, "", time.Unix(0, 0), bytes.NewReader(data))
	}))
	t.Cleanup(server.Close)
	err := Provide(t.Context(), t.TempDir(), mirrored, Source{
		Policy: FromMirror, Mirror: Mirror{URL: server.URL, Digests: []string{sum(data)}},
	})
	if err != nil || len(ranges) != 2 {
		t.Fatalf("%d requests, %v", len(ranges), err)
	}
	if first, second := <-ranges, <-ranges; first != "" || !strings.HasPrefix(second, "bytes=") {
		t.Errorf("the agent asked for %q, then %q", first, second)
	}
}

// A mirror that the host reaches by TLS can't redirect it to a server without TLS.
func TestAMirrorStaysWithTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.RedirectHandler("http://127.0.0.1:1/", http.StatusFound))
	t.Cleanup(server.Close)
	client := server.Client()
	client.CheckRedirect = followFew
	err := Provide(t.Context(), t.TempDir(), mirrored, Source{
		Policy: FromMirror, Mirror: Mirror{URL: server.URL, Digests: []string{sum(nil)}, HTTP: client},
	})
	if !strings.Contains(fault.Text(err, ""), "redirects from https to http;") {
		t.Errorf("got %v", err)
	}
}

func TestChoose(t *testing.T) {
	at := v1beta2.BundleMirror{URL: "https://mirror.example"}
	for name, c := range map[string]struct {
		configured string
		claimed    v1beta2.BundlePolicy
		want       Source
		plane      bool
	}{
		"neither the host nor the claim names a source": {plane: true},
		"the claim says plane": {
			claimed: v1beta2.BundlePolicy{Source: v1beta2.BundlesFromPlane}, plane: true, want: Source{Policy: FromPlane},
		},
		"the host says packages": {
			configured: "packages", claimed: v1beta2.BundlePolicy{Source: v1beta2.BundlesFromMirror, Mirror: at},
			want: Source{Policy: FromPackages},
		},
		"the claim says mirror": {
			claimed: v1beta2.BundlePolicy{Source: v1beta2.BundlesFromMirror, Mirror: at}, plane: true,
			want: Source{Policy: FromMirror, Mirror: Mirror{URL: "https://mirror.example"}},
		},
		"the claim says directory": {
			claimed: v1beta2.BundlePolicy{Source: v1beta2.BundlesFromDirectory}, want: Source{Policy: FromDirectory},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Choose(c.configured, c.claimed)
			if !reflect.DeepEqual(got, c.want) || got.NeedsPlane() != c.plane {
				t.Errorf("got %+v, needs the plane: %t", got, got.NeedsPlane())
			}
		})
	}
	if (Source{Policy: FromMirror, Mirror: Mirror{Digests: []string{"x"}}}).NeedsPlane() {
		t.Error("a mirror with digests needs the plane")
	}
	if err := Provide(t.Context(), t.TempDir(), mirrored, Source{Policy: "later"}); !strings.Contains(
		fault.Text(err, ""), "upgrade the agent") {
		t.Errorf("an unknown policy: %v", err)
	}
}
