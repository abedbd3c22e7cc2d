package bundle

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/agent/fault"
	"github.com/capstan-dev/capstan/internal/bundlefile"
	"github.com/capstan-dev/capstan/internal/enrolment"
)

// probeLimit bounds a probe.
const probeLimit = 20 * time.Second

// Probe asks the plane or mirror of a source once whether it has the bundle of a version. If version is empty, Probe
// only checks that the plane or mirror answers. It downloads nothing. The error is a fault if the server has answered.
func (s Source) Probe(ctx context.Context, version, arch string) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	switch {
	case s.Policy == FromMirror:
		return s.Mirror.probe(ctx, s.Plane, version, arch)
	case !s.NeedsPlane():
		return nil
	case s.Plane == nil:
		return fault.New(nil, "this host knows no plane with bundles")
	case version == "":
		return glance(ctx, s.Plane.HTTP, strings.TrimRight(s.Plane.URL, "/")+enrolment.VersionPath, refusedByPlane)
	}
	_, err := s.Plane.askDigest(ctx, version, arch)
	if errors.Is(err, errNone) {
		return fault.New(nil, "the plane has no bundle of Kubernetes %s for %s", version, arch)
	}
	return err
}

// probe asks the mirror for the beginning of a bundle, and the plane for the digest if the mirror has no digests.
func (m *Mirror) probe(ctx context.Context, plane *Plane, version, arch string) error {
	client := m.HTTP
	if client == nil {
		client = mirrorClient()
		defer client.CloseIdleConnections()
	}
	if version == "" {
		// It doesn't matter what a mirror says about its directory, as long as the mirror answers.
		return glance(ctx, client, strings.TrimRight(m.URL, "/")+"/", func(int) error { return nil })
	}
	if len(m.Digests) == 0 && plane == nil {
		return fault.New(nil, "nobody knows the digest of the bundle: this host knows no plane, and "+
			"spec.bundles.mirror.digests of the CapstanHost is empty")
	}
	if len(m.Digests) == 0 {
		_, err := plane.askDigest(ctx, version, arch)
		if errors.Is(err, errNone) {
			return fault.New(nil, "the plane does not know the digest of the bundle of Kubernetes %s for %s", version, arch)
		}
		if err != nil {
			return err
		}
	}
	url := strings.TrimRight(m.URL, "/") + "/" + bundlefile.FileName(version, arch)
	return glance(ctx, client, url, func(code int) error {
		switch {
		case code == http.StatusOK || code == http.StatusPartialContent:
			return nil
		case code == http.StatusNotFound || code == http.StatusGone:
			return fault.New(nil, "the mirror has no %s", url)
		}
		if err := refusedByMirror(code); err != nil {
			return err
		}
		return fault.New(nil, "the mirror answers %d %s", code, http.StatusText(code))
	})
}

// glance requests the first byte of a file, because not every web server describes a file without sending some of it.
// The function refused turns the status code of the response into the result of glance.
func glance(ctx context.Context, client *http.Client, url string, refused func(code int) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fault.New(err, "%s can't be requested", url)
	}
	request.Header.Set("Range", "bytes=0-0")
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("asking for bundles: %w", err)
	}
	response.Body.Close() // without reading the rest, in case the server sends the whole file
	return refused(response.StatusCode)
}
