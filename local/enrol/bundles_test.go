package enrol

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/enrolment"
)

// TestBundlesAreForHosts: only enrolled hosts get bundles. They present the key that they enrolled with.
func TestBundlesAreForHosts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bundle")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	answers := map[string]bool{}
	f := newFrontWith(t, nil, func(o *Options) {
		o.Known = func(_ context.Context, key string) (bool, error) {
			if enrolment.CheckPin(key) != nil {
				return false, errors.New("the key is not a hash: " + key)
			}
			return answers["known"], nil
		}
		o.Bundle = func(version, arch string) (*os.File, error) {
			if version != "v1.36.3" || arch != "amd64" {
				return nil, fs.ErrNotExist
			}
			return os.Open(path)
		}
	})
	const good = enrolment.BundlePath + "v1.36.3/linux/amd64"
	host, stranger := f.client(t, true), f.client(t, false)
	if code, body := call(t, host, http.MethodGet, f.url+good, nil); code != http.StatusForbidden {
		t.Errorf("a computer that has not enrolled: got %d %s, want 403", code, body)
	}
	answers["known"] = true
	if code, body := call(t, stranger, http.MethodGet, f.url+good, nil); code != http.StatusForbidden {
		t.Errorf("a client without a key: got %d %s, want 403", code, body)
	}
	if code, body := call(t, host, http.MethodGet, f.url+good, nil); code != http.StatusOK || body != "0123456789" {
		t.Errorf("an enrolled host: got %d %s", code, body)
	}
	const digest = "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882\n" // of 0123456789
	for range 2 {
		if code, body := call(t, host, http.MethodGet, f.url+good+enrolment.ChecksumSuffix, nil); body != digest {
			t.Errorf("the digest of the bundle: got %d %s", code, body)
		}
	}
	if err := os.WriteFile(path, []byte("another one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, body := call(t, host, http.MethodGet, f.url+good+enrolment.ChecksumSuffix, nil); code != http.StatusOK ||
		body == digest {
		t.Errorf("the digest after the bundle has changed: got %d %s", code, body)
	}
	if code, _ := call(t, stranger, http.MethodGet, f.url+good+".sha256", nil); code != http.StatusForbidden {
		t.Errorf("a client without a key asked for the digest: got %d, want 403", code)
	}
	for _, other := range []string{
		"v1.36.3/linux/arm64", "v1.36.3", "", "../linux/amd64", "v1.36.3/linux/amd64/x", ".sha256",
	} {
		code, body := call(t, host, http.MethodGet, f.url+enrolment.BundlePath+other, nil)
		if code != http.StatusNotFound {
			t.Errorf("an unknown bundle %q: got %d %s, want 404", other, code, body)
		}
	}
	if code, _ := call(t, host, http.MethodPost, f.url+good, strings.NewReader("x")); code != http.StatusForbidden {
		t.Errorf("posting a bundle: got %d, want 403", code)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url+good, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Range", "bytes=7-")
	response, err := host.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusPartialContent || response.Header.Get("ETag") == "" {
		t.Errorf("the rest of a bundle: got status %s and ETag %q", response.Status, response.Header.Get("ETag"))
	}
}
