package metrics

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/capstan-dev/capstan/internal/backoff"
)

// Limits of the server, which has one or two scrapers.
const (
	requestLimit = 10 * time.Second
	headerLimit  = 16 << 10 // bytes
	atOnce       = 4        // answers that are written at the same time
)

// Address checks an address at which to serve metrics, like 127.0.0.1:9464. If text has no host, as in :9464, Address
// returns an address that only this computer can reach. An empty address stays empty.
func Address(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	host, port, err := net.SplitHostPort(text)
	if n, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil || n == 0 ||
		host != "" && net.ParseIP(host) == nil {
		return "", errors.New("must be an IP address and a port, like 127.0.0.1:9464, or :9464 for this computer alone")
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// Serve serves the metrics at http://ADDRESS/metrics until ctx ends. It retries if it can't listen, because the agent
// must work without its metrics, too. Without an address, it returns at once.
func (m *Metrics) Serve(ctx context.Context, log *slog.Logger) {
	if m == nil || m.address == "" {
		return
	}
	pauses := backoff.Backoff{First: time.Second, Max: time.Minute, Spread: backoff.FleetSpread}
	for {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", m.address)
		if err == nil {
			log.Info("metrics are served", "address", listener.Addr().String())
			err = m.serveOn(ctx, listener)
		}
		if ctx.Err() != nil {
			return
		}
		log.Warn("the metrics are not served; choose another --metrics-bind-address", "address", m.address, "error", err)
		if pauses.Wait(ctx) != nil {
			return
		}
	}
}

// serveOn serves connections of a listener until ctx ends.
func (m *Metrics) serveOn(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	server := &http.Server{
		Handler: m.handler(), ReadTimeout: requestLimit, WriteTimeout: requestLimit, IdleTimeout: time.Minute,
		MaxHeaderBytes: headerLimit, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		<-ctx.Done()
		server.Close()
	}()
	defer func() {
		cancel()
		<-closed
	}()
	return server.Serve(listener)
}

// handler answers GET /metrics.
func (m *Metrics) handler() http.Handler {
	places := make(chan struct{}, atOnce)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			http.Error(w, "too many requests at once", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		io.WriteString(w, m.Text())
	})
	return mux
}
