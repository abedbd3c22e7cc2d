// Package enrol is the plane's enrolment server: the only part of the plane that a computer reaches before it is a
// host. To callers without an identity it offers the version, the agent and enrolment, and nothing else
// (docs/adr/0030).
package enrol

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/enrolment"
)

// Limits of a connection.
const (
	headerTimeout   = 5 * time.Second
	requestTimeout  = 30 * time.Second
	downloadTimeout = 5 * time.Minute
	stopTimeout     = 5 * time.Second
	headerBytes     = 8 << 10
)

// Options configure a Server.
type Options struct {
	// Enroll enrolls a computer as a host. Required.
	Enroll func(ctx context.Context, r enrolment.Request, key string) (*enrolment.Answer, error)
	// Return issues new tokens to hosts whose tokens have expired. Nil: the server refuses them all.
	Return func(ctx context.Context, r enrolment.Return, key string) (*enrolment.Answer, error)
	// Certificate returns the current serving certificate. Required.
	Certificate func() (*tls.Certificate, error)
	// Authority is the certificate authority that signs the serving certificate. The server sends it along with that
	// certificate. Required.
	Authority *x509.Certificate
	// Binaries is the directory with the builds of the agent. Required.
	Binaries string
	// URL is where hosts reach the server. Required.
	URL string
	// Version is Capstan's version.
	Version string
	// Known reports whether a host has enrolled with the key of this hash. Required for Bundle.
	Known func(ctx context.Context, key string) (bool, error)
	// Bundle opens the bundle of a version and architecture for an enrolled host. It fails with fs.ErrNotExist if there
	// is none. Nil: the server has no bundles.
	Bundle func(version, architecture string) (*os.File, error)
	// BundleBandwidth limits how fast all hosts together get bundles, in bytes per second. Zero means no limit.
	BundleBandwidth int64
	// Now is the clock for rate limits; nil means time.Now.
	Now func() time.Time
	// Log may be nil.
	Log *slog.Logger
}

// Server is the enrolment server.
type Server struct {
	Options
	agents    *agents
	requests  *limiter
	downloads *slots
	enrolling *slots
	open      *slots
	digests   digests
	pace      pace
}

// New returns a server.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{Options: o, agents: newAgents(o.Binaries), requests: newLimiter(o.Now),
		downloads: newSlots(downloads, downloadsOfOne), enrolling: newSlots(enrolments, enrolments),
		open: newSlots(connections, connectionsOfOne), pace: newPace(o.BundleBandwidth)}
}

// Serve serves the connections that the dock forwards, until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout,
		IdleTimeout: requestTimeout, MaxHeaderBytes: headerBytes,
		// Anybody can fail a handshake as often as they like, so failures are not logged.
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if server.Shutdown(limit) != nil {
			server.Close()
		}
	})
	err := server.Serve(tls.NewListener(&announced{l, s.open}, s.tls()))
	if stop() {
		return fmt.Errorf("serving enrolments: %w", err)
	}
	<-ended
	return nil
}

// tls requests a client certificate and accepts any: the handshake proves that the client holds its key.
func (s *Server) tls() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequestClientCert,
		NextProtos: []string{"http/1.1"}, // one request at a time, so that limits per connection hold
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := s.Certificate()
			if err != nil {
				return nil, err
			}
			with := *pair
			with.Certificate = append(append([][]byte{}, pair.Certificate...), s.Authority.Raw)
			return &with, nil
		},
	}
}

// handler rejects all paths that it does not know.
func (s *Server) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := addressOf(r)
		if !s.requests.allow(from) {
			s.busy(w)
			return
		}
		arch, isAgent := strings.CutPrefix(r.URL.Path, enrolment.AgentPath)
		which, isBundle := strings.CutPrefix(r.URL.Path, enrolment.BundlePath)
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		switch {
		case r.URL.Path == enrolment.EnrollPath && r.Method == http.MethodPost:
			s.enroll(w, r, from)
		case r.URL.Path == enrolment.ReturnPath && r.Method == http.MethodPost && s.Return != nil:
			s.comeBack(w, r, from)
		case r.URL.Path == enrolment.VersionPath && reads:
			answer(w, http.StatusOK, map[string]string{"version": s.Version})
		case r.URL.Path == enrolment.InstallPath && reads:
			w.Header().Set("Content-Type", "text/x-shellscript")
			_, _ = w.Write(script(s.URL, enrolment.Pin(s.Authority), s.Version, s.agents.checksums()))
		case isAgent && reads:
			s.agent(w, r, arch, from)
		case isBundle && reads && s.Bundle != nil:
			s.bundle(w, r, which, from)
		default:
			answer(
				w,
				http.StatusForbidden,
				refuse(enrolment.ReasonRequest, "callers without an identity have no access to this"),
			)
		}
	})
}

// agent serves a build of the agent, or its checksum.
func (s *Server) agent(w http.ResponseWriter, r *http.Request, arch string, from netip.Addr) {
	arch, sum := strings.CutSuffix(arch, enrolment.ChecksumSuffix)
	file, b, err := s.agents.open(arch)
	if err != nil {
		answer(w, http.StatusForbidden, refuse(enrolment.ReasonRequest, "the plane has no agent for that architecture"))
		return
	}
	defer file.Close()
	if sum {
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintln(w, b.checksum)
		return
	}
	if !s.downloads.take(from) {
		s.busy(w)
		return
	}
	defer s.downloads.leave(from)
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(downloadTimeout)); err != nil {
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", b.changed, file)
}

// enroll serves enrolments.
func (s *Server) enroll(w http.ResponseWriter, r *http.Request, from netip.Addr) {
	serve(s, w, r, from, "enrolled", s.Enroll)
}

// comeBack serves hosts that return after their token has expired.
func (s *Server) comeBack(w http.ResponseWriter, r *http.Request, from netip.Addr) {
	serve(s, w, r, from, "returned", s.Return)
}

// serve applies the limits to a request of a host, and reads, handles and logs the request.
func serve[R any](
	s *Server, w http.ResponseWriter, r *http.Request, from netip.Addr, done string,
	do func(context.Context, R, string) (*enrolment.Answer, error),
) {
	if !s.enrolling.take(from) {
		s.busy(w)
		return
	}
	defer s.enrolling.leave(from)
	var request R
	key, refusal := read(w, r, &request)
	if refusal != nil {
		answer(w, http.StatusBadRequest, refusal)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	result, err := do(ctx, request, key)
	switch refused := (*enrolment.Refusal)(nil); {
	case err == nil:
		s.Log.Info("A host "+done, "host", result.Namespace+"/"+result.Host, "from", from, "again", result.Again)
		answer(w, http.StatusOK, result)
	case errors.As(err, &refused):
		s.Log.Info("A host was refused", "what", done, "reason", refused.Reason, "from", from)
		answer(w, status(refused), refused)
	default:
		s.Log.Error("A host was not served", "what", done, "error", err, "from", from)
		plane := refuse(enrolment.ReasonPlane, "the plane could not serve the host: its log says why; try again")
		plane.Retry = true
		answer(w, http.StatusServiceUnavailable, plane)
	}
}

// read reads a request and returns the hash of the client's key.
func read(w http.ResponseWriter, r *http.Request, request any) (key string, refusal *enrolment.Refusal) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return "", refuse(enrolment.ReasonRequest, "the host sent no certificate: enroll with capstan-agent")
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, enrolment.BodyLimit))
	decoder.DisallowUnknownFields()
	if decoder.Decode(request) != nil || decoder.Decode(&struct{}{}) != io.EOF {
		return "", refuse(enrolment.ReasonRequest, "the request is not from a matching capstan-agent: use the agent that "+
			"this plane offers")
	}
	return enrolment.Pin(r.TLS.PeerCertificates[0]), nil
}

// status returns the HTTP status for a refusal. Pure.
func status(r *enrolment.Refusal) int {
	switch r.Reason {
	case enrolment.ReasonCredential, enrolment.ReasonExpired, enrolment.ReasonUsedUp:
		return http.StatusUnauthorized
	case enrolment.ReasonName, enrolment.ReasonZone:
		return http.StatusForbidden
	case enrolment.ReasonTaken, enrolment.ReasonInUse, enrolment.ReasonGone:
		return http.StatusConflict
	}
	return http.StatusBadRequest
}

func (s *Server) busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "5")
	answer(w, http.StatusTooManyRequests, &enrolment.Refusal{Reason: enrolment.ReasonBusy, Retry: true,
		Message: "too many requests: try again in some seconds"})
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

// addressOf returns the address that a request comes from.
func addressOf(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}
