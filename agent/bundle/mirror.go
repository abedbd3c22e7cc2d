package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/agent/fault"
	"github.com/capstan-dev/capstan/internal/bundlefile"
)

// Limits of a mirror.
const (
	mirrorRedirects = 5
	mirrorTimeout   = 30 * time.Second
)

// Mirror is a web server with bundles. It is not trusted: the digests of the bundles come from elsewhere.
type Mirror struct {
	// URL is the directory of the bundles.
	URL string
	// Digests are the SHA-256 digests of the bundles that may be used; if empty, only the plane's digest counts.
	Digests []string
	// HTTP is the client; nil means a client that sends no credentials and follows a few redirects.
	HTTP *http.Client
}

// fetch downloads a bundle to path and verifies its digest.
func (m *Mirror) fetch(ctx context.Context, plane *Plane, version, arch, path string) error {
	digests, err := m.digests(ctx, plane, version, arch)
	if err != nil {
		return err
	}
	d := download{
		url: strings.TrimRight(m.URL, "/") + "/" + bundlefile.FileName(version, arch), http: m.HTTP, refused: refusedByMirror,
	}
	if d.http == nil {
		d.http = mirrorClient()
		defer d.http.CloseIdleConnections()
	}
	_, begun := before(path)
	for {
		switch err := d.fetch(ctx, path); {
		case errors.Is(err, errNone):
			return fault.New(nil, "the mirror has no %s; put the bundle there, or choose another source", d.url)
		case err != nil:
			return err
		}
		digest, err := digestOf(path)
		if err != nil {
			return fault.New(err, "the bundle can't be read")
		}
		if slices.Contains(digests, digest) {
			return nil
		}
		if err := forget(path); err != nil {
			return fault.New(err, "a bundle with a wrong digest can't be removed")
		}
		if begun == 0 {
			return fault.New(nil, "%s has the digest %s, and that is not one of %s; put the right bundle on the mirror",
				d.url, digest, strings.Join(digests, ", "))
		}
		begun = 0 // the beginning may be of another file: download everything once more
	}
}

// digests returns the digests that the bundle may have.
func (m *Mirror) digests(ctx context.Context, plane *Plane, version, arch string) ([]string, error) {
	if len(m.Digests) > 0 {
		return m.Digests, nil
	}
	if plane == nil {
		return nil, fault.New(nil, "this host knows no plane that has the digest of the bundle; set "+
			"spec.bundles.mirror.digests of the CapstanHost, or enroll the host again")
	}
	digest, err := plane.digest(ctx, version, arch)
	if errors.Is(err, errNone) {
		return nil, fault.New(nil, "the plane does not know the digest of the bundle of Kubernetes %s for %s; run on the "+
			"plane's computer: capstan bundle import FILE, or set spec.bundles.mirror.digests of the CapstanHost", version, arch)
	}
	return []string{digest}, err
}

// refusedByMirror returns the fault for a status code of a mirror, or nil if trying again may help.
func refusedByMirror(code int) error {
	if code >= 500 || code == http.StatusRequestTimeout || code == http.StatusTooManyRequests {
		return nil
	}
	return fault.New(nil, "the mirror of the bundles answers %d %s; check its URL, and that it asks for no password",
		code, http.StatusText(code))
}

// mirrorClient returns a client that sends no credentials anywhere. It uses the agent's proxy settings.
func mirrorClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: mirrorTimeout}).DialContext,
			TLSHandshakeTimeout: mirrorTimeout, ResponseHeaderTimeout: mirrorTimeout, IdleConnTimeout: mirrorTimeout,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: followFew,
	}
}

// followFew follows a limited number of redirects to http and https URLs, but none from https to http.
func followFew(next *http.Request, via []*http.Request) error {
	next.Header.Del("Referer") // addresses may be confidential
	switch {
	case len(via) > mirrorRedirects:
		return fault.New(nil, "the mirror redirects more than %d times", mirrorRedirects)
	case next.URL.Scheme != "https" && (next.URL.Scheme != "http" || via[len(via)-1].URL.Scheme == "https"):
		return fault.New(nil, "the mirror redirects from https to %s; give it an address that doesn't", next.URL.Scheme)
	case next.URL.User != nil:
		return fault.New(nil, "the mirror redirects to an address with a password; give it an address that doesn't")
	}
	return nil
}

// digestOf returns the SHA-256 digest of a file, in hex.
func digestOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
