package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/capstan-dev/capstan/agent/fault"
	"github.com/capstan-dev/capstan/internal/bundlefile"
	"github.com/capstan-dev/capstan/internal/enrolment"
)

// Plane is the source of bundles: the plane's enrolment server, which identifies the host by its key.
type Plane struct {
	// URL is the server's URL.
	URL string
	// HTTP presents the host's certificate and trusts only the plane's certificate authority.
	HTTP *http.Client
}

func (p *Plane) url(version, arch string) string {
	return strings.TrimRight(p.URL, "/") + enrolment.BundlePath + version + "/linux/" + arch
}

// fetch downloads a bundle to path. If it has resumed an earlier attempt and the result does not have the plane's
// digest, it starts over.
func (p *Plane) fetch(ctx context.Context, version, arch, path string) error {
	d := download{url: p.url(version, arch), http: p.HTTP, refused: refusedByPlane}
	_, begun := before(path)
	if err := d.fetch(ctx, path); err != nil || begun == 0 {
		return err
	}
	want, err := p.digest(ctx, version, arch)
	if errors.Is(err, errNone) {
		return nil // a plane of an earlier version has no digest: the digests of the files in the bundle must suffice
	}
	if err != nil {
		return err
	}
	got, err := digestOf(path)
	if err != nil {
		return fault.New(err, "the bundle can't be read")
	}
	if got == want {
		return nil
	}
	if err := forget(path); err != nil {
		return fault.New(err, "a bundle with a wrong digest can't be removed")
	}
	return d.fetch(ctx, path)
}

// digest returns the SHA-256 digest of the plane's bundle, in hex.
func (p *Plane) digest(ctx context.Context, version, arch string) (digest string, err error) {
	err = persist(ctx, func(ctx context.Context) (brought bool, err error) {
		digest, err = p.askDigest(ctx, version, arch)
		return err == nil, err
	})
	return digest, err
}

// askDigest makes one attempt to get the digest.
func (p *Plane) askDigest(ctx context.Context, version, arch string) (digest string, err error) {
	d := download{url: p.url(version, arch) + enrolment.ChecksumSuffix, http: p.HTTP, refused: refusedByPlane}
	response, _, err := d.ask(ctx, "")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 128))
	if err != nil {
		return "", fmt.Errorf("asking for the digest of the bundle: %w", err)
	}
	if digest = strings.TrimSpace(string(text)); !bundlefile.ValidDigest(digest) {
		return "", fault.New(nil, "the plane did not send the digest of its bundle; upgrade the plane")
	}
	return digest, nil
}

// refusedByPlane returns the fault for a status code of the plane, or nil if trying again may help.
func refusedByPlane(code int) error {
	if code != http.StatusForbidden {
		return nil
	}
	return fault.New(nil, "the plane does not know this host's key and refuses bundles; enroll the host again")
}
