//go:build linux

// Package service serves the image store to the machine's user at one socket, and to the dock's hosts at another. Each
// host has its own limits. docs/images.md describes both protocols.
package service

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/image/archive"
	"github.com/capstan-dev/capstan/image/layer"
	"github.com/capstan-dev/capstan/image/store"
)

// Puller pulls images from registries into the store.
type Puller interface {
	// Pull pulls the image with a canonical name into the store, verifies that the credential gives access to it, and
	// returns its digest. The caller holds [store.Store.Use].
	Pull(ctx context.Context, name string, who Asker, say func(string)) (digest string, err error)
}

// Asker identifies on whose behalf an image is pulled.
type Asker struct {
	// Host reports that the asker is a host of the dock, not the machine's user.
	Host bool
	// Auth is the credential. The machine's user also has the credentials of the user's configuration.
	Auth *image.Auth
}

// Bounds of requests.
const (
	maxQuestion   = 64 << 10
	questionLimit = 30 * time.Second
	pullLimit     = 30 * time.Minute
	loadLimit     = time.Hour
)

// Server serves the store.
type Server struct {
	Store  *store.Store
	Puller Puller
	Log    *log.Logger

	once sync.Once
	work chan struct{}
}

// Worked returns a channel that receives a value after each task that used a lot of memory.
func (s *Server) Worked() <-chan struct{} {
	s.once.Do(func() { s.work = make(chan struct{}, 1) })
	return s.work
}

// worked reports on the channel of Worked that a task used a lot of memory.
func (s *Server) worked() {
	s.Worked()
	select {
	case s.work <- struct{}{}:
	default:
	}
}

// serve serves until ctx ends.
func serve(ctx context.Context, l net.Listener, h http.Handler, logger *log.Logger, also func(*http.Server)) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: logger, BaseContext: func(net.Listener) context.Context { return ctx },
	}
	if also != nil {
		also(server)
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	err := server.Serve(l)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// ServeOwner serves the machine's user until ctx ends.
func (s *Server) ServeOwner(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/images", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.Store.List(), nil) })
	mux.HandleFunc("DELETE /v1/images", func(w http.ResponseWriter, r *http.Request) {
		ref, err := canonicalOrID(r.URL.Query().Get("ref"))
		if err == nil {
			err = s.Store.Untag(ref)
		}
		answer(w, struct{}{}, err)
	})
	mux.HandleFunc("POST /v1/load", func(w http.ResponseWriter, r *http.Request) {
		stream(w, r, loadLimit, func(ctx context.Context, say func(string)) ([]image.Image, error) {
			defer s.worked()
			return archive.Load(ctx, s.Store, r.Body, r.URL.Query().Get("name"), say)
		})
	})
	mux.HandleFunc("POST /v1/pull", func(w http.ResponseWriter, r *http.Request) {
		q, err := question(w, r)
		if err != nil {
			answer(w, nil, err)
			return
		}
		stream(w, r, pullLimit, func(ctx context.Context, say func(string)) ([]image.Image, error) {
			return s.pullForOwner(ctx, q, say)
		})
	})
	mux.HandleFunc("GET /v1/save", s.save)
	return serve(ctx, l, mux, s.Log, nil)
}

func (s *Server) pullForOwner(ctx context.Context, q image.Question, say func(string)) ([]image.Image, error) {
	name, err := image.Canonical(q.Image)
	if err != nil {
		return nil, err
	}
	defer s.worked()
	defer s.Store.Use()()
	digest, err := s.Puller.Pull(ctx, name, Asker{Auth: q.Auth}, say)
	if err != nil {
		return nil, err
	}
	if err := s.Store.Tag(name, digest); err != nil {
		return nil, err
	}
	img, err := s.Store.Describe(digest)
	img.Config = nil
	return []image.Image{img}, err
}

// save writes an archive. On an error it breaks the connection, so that the client notices that the archive is
// truncated.
func (s *Server) save(w http.ResponseWriter, r *http.Request) {
	var refs []string
	for _, text := range r.URL.Query()["ref"] {
		ref, err := canonicalOrID(text)
		if err == nil {
			_, err = s.Store.Find(ref)
		}
		if err != nil {
			answer(w, nil, err)
			return
		}
		refs = append(refs, ref)
	}
	w.Header().Set("Content-Type", "application/x-tar")
	if err := archive.Save(s.Store, w, refs); err != nil {
		s.Log.Printf("saving images: %v", err)
		panic(http.ErrAbortHandler)
	}
}

// canonicalOrID returns a digest or an id unchanged, and any other name in canonical form.
func canonicalOrID(text string) (string, error) {
	if image.IsID(text) {
		return text, nil
	}
	return image.Canonical(text)
}

// question reads a request within a time limit. The limit does not cover the rest of the exchange: a server's read
// deadline would break a pull that takes longer.
func question(w http.ResponseWriter, r *http.Request) (q image.Question, err error) {
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(questionLimit)); err != nil {
		return q, err
	}
	defer control.SetReadDeadline(time.Time{})
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion)).Decode(&q); err != nil {
		return q, image.Errorf(image.CodeInvalid, "", "the request can't be read: %v", err)
	}
	return q, nil
}

// stream answers a long request with lines of JSON, the last of which is the outcome.
func stream(w http.ResponseWriter, r *http.Request, limit time.Duration,
	do func(context.Context, func(string)) ([]image.Image, error),
) {
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	w.Header().Set("Content-Type", "application/x-ndjson")
	control := http.NewResponseController(w)
	if err := control.EnableFullDuplex(); err != nil { // progress is sent while the archive is received
		answer(w, nil, err)
		return
	}
	var mu sync.Mutex
	enc := json.NewEncoder(w)
	send := func(e image.Event) {
		mu.Lock()
		defer mu.Unlock()
		if enc.Encode(e) == nil {
			control.Flush()
		}
	}
	images, err := do(ctx, func(text string) { send(image.Event{Text: text}) })
	if err != nil {
		send(image.Event{Error: classify(err)})
		// A client that sends an archive reads the answer only after everything was sent or refused.
		io.CopyN(io.Discard, r.Body, 1<<20)
		return
	}
	send(image.Event{Images: images})
}

// answer writes a value, or an error.
func answer(w http.ResponseWriter, value any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		e := classify(err)
		w.WriteHeader(statusOf(e.Code))
		value = e
	}
	json.NewEncoder(w).Encode(value)
}

// classify converts every error that leaves the process to an [image.Error] with a code.
func classify(err error) *image.Error {
	var typed *image.Error
	switch {
	case errors.As(err, &typed):
		return &image.Error{Code: typed.Code, Message: err.Error(), Advice: typed.Advice}
	case layer.IsRefused(err):
		return image.Errorf(image.CodeInvalid, "", "%v", err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return image.Errorf(image.CodeNoSpace, "free some space on the disk of images", "%v", err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, os.ErrDeadlineExceeded):
		return image.Errorf(image.CodeUnavailable, "try again", "%v", err)
	}
	return image.Errorf(image.CodeFailed, "", "%v", err)
}

func statusOf(c image.Code) int {
	switch c {
	case image.CodeInvalid:
		return http.StatusBadRequest
	case image.CodeNotFound:
		return http.StatusNotFound
	case image.CodeDenied:
		return http.StatusForbidden
	case image.CodeUnavailable:
		return http.StatusBadGateway
	case image.CodeNoSpace:
		return http.StatusInsufficientStorage
	case image.CodeBusy:
		return http.StatusTooManyRequests
	case image.CodeInUse:
		return http.StatusConflict
	}
	return http.StatusInternalServerError
}
