package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/capstan-dev/capstan/runtime/registry"
)

// shutdownTime is how long running calls may continue after the context is done.
const shutdownTime = 5 * time.Second

// TLS configures where to listen and with which certificate.
type TLS struct {
	// Address to listen on, host:port. Port 0 picks a free one.
	Address string
	// CertFile contains the server's certificate and its chain in PEM form. It is read again when it changes.
	CertFile string
	// KeyFile contains the certificate's private key in PEM form. It is read again when it changes.
	KeyFile string
	// ClientCAFile contains CA certificates in PEM form. If set, callers need a certificate issued by one of them. It is
	// read again when it changes. Default: callers need no certificate.
	ClientCAFile string
	// GetCertificate returns the certificate for a connection, in place of CertFile and KeyFile. Package certificate has
	// an implementation that issues and renews its own. Default: the files are used.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Linger is how long to keep serving after the context is done, while the readiness probe of [Server.Health] already
	// fails: load balancers need some seconds to notice. Default: 0.
	Linger time.Duration
	// Log receives problems with connections and certificates. Default: none.
	Log *slog.Logger
	// Ready is called once with the address that the server listens on. Default: nothing is called.
	Ready func(net.Addr)
}

// Serve serves a handler over TLS until the context is done; running calls then get five seconds to finish. If the
// handler has a method Drain, as [Server] does, it is called first. Serve returns nil if it stopped because of the
// context.
func Serve(ctx context.Context, options TLS, handler http.Handler) error {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	files := options.CertFile != "" || options.KeyFile != ""
	switch {
	case options.GetCertificate != nil && files:
		return errors.New("serving hooks: there are both files of a certificate and GetCertificate: give one or the other")
	case options.GetCertificate == nil && (options.CertFile == "" || options.KeyFile == ""):
		return errors.New("serving hooks: a certificate and its key are needed: hooks are only called over https (RX-01)")
	case options.Linger < 0:
		return errors.New("serving hooks: Linger must not be negative")
	}
	identity, err := newIdentity(options, options.Log)
	if err != nil {
		return fmt.Errorf("serving hooks: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", options.Address)
	if err != nil {
		return fmt.Errorf("serving hooks: %w", err)
	}
	server := &http.Server{
		Handler:           handler,
		TLSConfig:         identity.tlsConfig(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       registry.MaxTimeout,
		// from the end of the headers: covers reading, waiting for a slot and working
		WriteTimeout:   registry.MaxTimeout + 15*time.Second,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
		ErrorLog:       slog.NewLogLogger(options.Log.Handler(), slog.LevelWarn),
	}
	if options.Ready != nil {
		options.Ready(listener.Addr())
	}
	return run(ctx, server, options.Linger, func() error { return server.ServeTLS(listener, "", "") })
}

// run serves until the context is done, and returns when everything has stopped.
func run(ctx context.Context, server *http.Server, linger time.Duration, serve func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- serve() }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving hooks: %w", err)
	case <-ctx.Done():
	}
	if h, ok := server.Handler.(interface{ Drain() }); ok {
		h.Drain()
	}
	select {
	case err := <-ended:
		return fmt.Errorf("serving hooks: %w", err)
	case <-time.After(linger):
	}
	graceful, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if err := server.Shutdown(graceful); err != nil {
		_ = server.Close() // callers that still wait will ask again
	}
	<-ended
	return nil
}
