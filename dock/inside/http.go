//go:build linux

package inside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/capstan-dev/capstan/dock"
)

const (
	maxBody   = 32 << 20 // bytes of a request: a host's files
	callLimit = 90 * time.Second
)

// server is the API on HOME/dock/dock.sock.
type server struct{ http *http.Server }

// serve listens on the socket. Only the user who runs the dock can connect.
func serve(e *engine, dir string) (*server, error) {
	l, err := listen(dir, "dock.sock")
	if err != nil {
		return nil, err
	}
	s := &server{http: &http.Server{
		Handler:           http.MaxBytesHandler(handler(e), maxBody),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          e.Log,
	}}
	go func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			e.Log.Printf("serving the dock's API: %v", err)
		}
	}()
	return s, nil
}

// listen creates a socket for the user who runs the dock. It binds through /proc/self/fd because the path of a unix
// socket is limited to 107 bytes.
func listen(dir, name string) (net.Listener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("making the dock's socket: %w", err)
	}
	defer d.Close()
	path := filepath.Join(dir, name)
	// We hold the lock, so an existing socket is a leftover.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing the socket of a previous dock: %w", err)
	}
	short := filepath.Join("/proc/self/fd", strconv.Itoa(int(d.Fd())), name)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: short})
	if err != nil {
		return nil, fmt.Errorf("making the dock's socket: %w", err)
	}
	l.SetUnlinkOnClose(false) // the path through /proc/self/fd is invalid when the listener closes
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("making the dock's socket: %w", err)
	}
	return l, nil
}

// Close stops serving and gives calls in progress a moment to finish.
func (s *server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
}

func handler(e *engine) http.Handler {
	mux := http.NewServeMux()
	answer := func(do call) http.HandlerFunc { return answer(e, do) }
	mux.HandleFunc("GET /v1/status", answer(func(context.Context, *http.Request) (any, error) { return e.status(), nil }))
	mux.HandleFunc("POST /v1/shutdown",
		answer(func(context.Context, *http.Request) (any, error) { e.askShutdown(); return nil, nil }))

	mux.HandleFunc("PUT /v1/hosts/{name}", answer(func(ctx context.Context, r *http.Request) (any, error) {
		spec, err := body[dock.HostSpec](r)
		if err != nil {
			return nil, err
		}
		spec.Name = r.PathValue("name")
		return e.ensureHost(ctx, spec)
	}))
	mux.HandleFunc("DELETE /v1/hosts/{name}", answer(func(ctx context.Context, r *http.Request) (any, error) {
		return nil, e.deleteHost(ctx, r.PathValue("name"))
	}))
	for verb, g := range map[string]goal{"start": wantRunning, "stop": wantStopped, "reboot": wantReboot} {
		mux.HandleFunc("POST /v1/hosts/{name}/"+verb, answer(func(ctx context.Context, r *http.Request) (any, error) {
			return nil, e.powerHost(ctx, r.PathValue("name"), g)
		}))
	}

	mux.HandleFunc("PUT /v1/balancers/{name}", answer(func(_ context.Context, r *http.Request) (any, error) {
		return e.ensureBalancer(r.PathValue("name"))
	}))
	mux.HandleFunc("PUT /v1/balancers/{name}/backends", answer(func(_ context.Context, r *http.Request) (any, error) {
		backends, err := body[[]string](r)
		if err != nil {
			return nil, err
		}
		return nil, e.setBackends(r.PathValue("name"), backends)
	}))
	mux.HandleFunc("DELETE /v1/balancers/{name}", answer(func(_ context.Context, r *http.Request) (any, error) {
		return nil, e.deleteBalancer(r.PathValue("name"))
	}))

	mux.HandleFunc("PUT /v1/relays/{name}", answer(func(_ context.Context, r *http.Request) (any, error) {
		target, err := body[string](r)
		if err != nil {
			return nil, err
		}
		return e.ensureRelay(r.PathValue("name"), target)
	}))
	mux.HandleFunc("PUT /v1/publications/{name}", answer(func(_ context.Context, r *http.Request) (any, error) {
		p, err := body[dock.Publication](r)
		if err != nil {
			return nil, err
		}
		return e.publish(r.PathValue("name"), p)
	}))
	mux.HandleFunc("DELETE /v1/relays/{name}", answer(func(_ context.Context, r *http.Request) (any, error) {
		return nil, e.deleteRelay(r.PathValue("name"))
	}))

	mux.HandleFunc("PUT /v1/units/{name}", answer(func(_ context.Context, r *http.Request) (any, error) {
		u, err := body[dock.Unit](r)
		if err != nil {
			return nil, err
		}
		u.Name = r.PathValue("name")
		return e.ensureUnit(u)
	}))
	mux.HandleFunc("DELETE /v1/units/{name}", answer(func(_ context.Context, r *http.Request) (any, error) {
		return nil, e.stopUnit(r.PathValue("name"))
	}))
	return mux
}

// call handles a request and returns the value to encode.
type call func(context.Context, *http.Request) (any, error)

// answer turns a function into a handler. If the caller goes away, the call still runs to its end.
func answer(e *engine, do call) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), callLimit)
		defer cancel()
		result, err := do(ctx, r)
		select {
		case <-e.listeners.Gone(): // the outer process was killed, and this one will be too
			result, err = nil, errClosing
		default:
		}
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			var e *dock.Error
			if !errors.As(classify(err), &e) {
				e = &dock.Error{Code: dock.CodeFailed, Message: err.Error()}
			}
			w.WriteHeader(statusOf(e.Code))
			json.NewEncoder(w).Encode(e)
			return
		}
		if result != nil {
			json.NewEncoder(w).Encode(result)
		}
	}
}

func statusOf(c dock.Code) int {
	switch c {
	case dock.CodeInvalid:
		return http.StatusBadRequest
	case dock.CodeNotFound:
		return http.StatusNotFound
	case dock.CodePortTaken:
		return http.StatusConflict
	case dock.CodeNoSpace, dock.CodeExhausted:
		return http.StatusInsufficientStorage
	case dock.CodeShuttingDown:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func body[T any](r *http.Request) (v T, err error) {
	if err := json.NewDecoder(r.Body).Decode(&v); err != nil {
		return v, invalid("reading the request: %v", err)
	}
	return v, nil
}
