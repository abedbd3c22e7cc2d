package enrol

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/internal/enrolment"
)

// bundleTimeout bounds one download of a bundle. A host resumes a download that was cut off.
const bundleTimeout = 30 * time.Minute

// bundle serves a bundle to an enrolled host, which has proved its key in the TLS handshake.
func (s *Server) bundle(w http.ResponseWriter, r *http.Request, which string, from netip.Addr) {
	known := false
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		var err error
		if known, err = s.Known(r.Context(), enrolment.Pin(r.TLS.PeerCertificates[0])); err != nil {
			s.Log.Error("A bundle was not served", "error", err, "from", from)
			plane := refuse(enrolment.ReasonPlane, "the plane could not look up the host: try again")
			plane.Retry = true
			answer(w, http.StatusServiceUnavailable, plane)
			return
		}
	}
	if !known {
		answer(w, http.StatusForbidden, refuse(enrolment.ReasonRequest, "bundles are for hosts that have enrolled"))
		return
	}
	which, sum := strings.CutSuffix(which, enrolment.ChecksumSuffix)
	version, arch, _ := strings.Cut(which, "/linux/")
	file, err := s.Bundle(version, arch)
	if errors.Is(err, fs.ErrNotExist) {
		answer(w, http.StatusNotFound, refuse(enrolment.ReasonRequest, "the plane has no such bundle"))
		return
	}
	if err != nil {
		s.Log.Error("A bundle was not served", "error", err, "from", from)
		answer(w, http.StatusServiceUnavailable, refuse(enrolment.ReasonPlane, "the plane could not open the bundle"))
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		answer(w, http.StatusServiceUnavailable, refuse(enrolment.ReasonPlane, "the plane could not open the bundle"))
		return
	}
	if !s.downloads.take(from) {
		s.busy(w)
		return
	}
	defer s.downloads.leave(from)
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(bundleTimeout)); err != nil {
		return
	}
	tag := fmt.Sprintf(`"%x-%x"`, info.ModTime().UnixNano(), info.Size())
	if sum {
		digest, err := s.digests.of(which+tag, file)
		if err != nil {
			answer(w, http.StatusServiceUnavailable, refuse(enrolment.ReasonPlane, "the plane could not read the bundle"))
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintln(w, digest)
		return
	}
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("ETag", tag)
	http.ServeContent(w, r, "", info.ModTime(), s.pace.of(r.Context(), file))
}

// mostDigests is how many digests are remembered.
const mostDigests = 128

// digests remembers the SHA-256 digests of bundles.
type digests struct {
	mu    sync.Mutex
	known map[string]string
}

// of returns the digest of a bundle in hex. It reads each bundle only once, and only one bundle at a time. The key
// names the bundle, and changes when the bundle's content changes.
func (d *digests) of(key string, bundle io.Reader) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if digest, known := d.known[key]; known {
		return digest, nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, bundle); err != nil {
		return "", fmt.Errorf("computing the digest of a bundle: %w", err)
	}
	if d.known == nil || len(d.known) >= mostDigests {
		d.known = map[string]string{}
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	d.known[key] = digest
	return digest, nil
}
