package bundle

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/agent/fault"
	"github.com/capstan-dev/capstan/internal/bundlefile"
)

// TestProbe: a probe reports whether a bundle is available, and requests no more than its beginning.
func TestProbe(t *testing.T) {
	data := archived(t, mirrored)
	file := bundlefile.FileName(mirrored, runtime.GOARCH)
	var told *fault.Fault
	serve := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/capstan/"+file {
			http.NotFound(w, r)
			return
		}
		if got := r.Header.Get("Range"); got != "bytes=0-0" || len(r.Header["Authorization"]) > 0 {
			t.Errorf("the mirror was sent %v", r.Header)
		}
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(data[:1])
	}
	only := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	plane, dead := knowing(t, sum(data)), &Plane{URL: "http://127.0.0.1:1", HTTP: http.DefaultClient}
	digests := []string{sum(data)}
	for name, c := range map[string]struct {
		mirror  http.HandlerFunc // nil: the policy is FromPlane
		digests []string
		plane   *Plane
		version string
		fails   string
		silent  bool // no server has answered
	}{
		"the plane has the bundle": {plane: plane, version: mirrored},
		"the plane does not have the bundle": {
			plane: knowing(t, ""), version: mirrored, fails: "the plane has no bundle of Kubernetes",
		},
		"the plane does not answer":   {plane: dead, version: mirrored, fails: "connection refused", silent: true},
		"no plane":                    {version: mirrored, fails: "knows no plane"},
		"the mirror has the bundle":   {mirror: serve, digests: digests, version: mirrored},
		"the mirror sends everything": {mirror: only(http.StatusOK), digests: digests, version: mirrored},
		"the plane knows the digest":  {mirror: serve, plane: plane, version: mirrored},
		"no digests and no plane":     {mirror: serve, version: mirrored, fails: "nobody knows the digest"},
		"the plane does not know the digest": {
			mirror: serve, plane: knowing(t, ""), version: mirrored, fails: "does not know the digest",
		},
		"the mirror does not have the bundle": {
			mirror: http.NotFound, digests: digests, version: mirrored, fails: "the mirror has no http",
		},
		"the mirror wants a password": {
			mirror: only(http.StatusUnauthorized), digests: digests, version: mirrored, fails: "401",
		},
		"the mirror is out of order": {
			mirror: only(http.StatusBadGateway), digests: digests, version: mirrored, fails: "502",
		},
		"a mirror, without a version": {mirror: http.NotFound, digests: digests},
		"a plane, without a version": {
			plane: &Plane{URL: httpServer(t, only(http.StatusOK)), HTTP: http.DefaultClient},
		},
		"a plane that does not know the host, without a version": {
			plane: &Plane{URL: httpServer(t, only(http.StatusForbidden)), HTTP: http.DefaultClient},
			fails: "enroll the host again",
		},
	} {
		t.Run(name, func(t *testing.T) {
			source := Source{Policy: FromPlane, Plane: c.plane}
			if c.mirror != nil {
				source.Policy, source.Mirror = FromMirror, Mirror{URL: httpServer(t, c.mirror) + "/capstan", Digests: c.digests}
			}
			err := source.Probe(t.Context(), c.version, runtime.GOARCH)
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("got %v, want %q", err, c.fails)
			}
			if err != nil && errors.As(err, &told) == c.silent {
				t.Errorf("want an answer of a server: %v, got the error %v", !c.silent, err)
			}
		})
	}
	gone := Source{Policy: FromMirror, Mirror: Mirror{URL: "http://127.0.0.1:1", Digests: digests}}
	if err := gone.Probe(t.Context(), "", runtime.GOARCH); err == nil || errors.As(err, &told) {
		t.Errorf("the error for a mirror that is not there is %v", err)
	}
}

func httpServer(t *testing.T, serve http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(server.Close)
	return server.URL
}
