package conformance_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// bad wraps a good extension and breaks some of its behaviour.
func bad(next http.Handler, spoil func(w http.ResponseWriter, r *http.Request, next http.Handler)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { spoil(w, r, next) })
}

// rewrite changes the answers of handlers.
func rewrite(change func(body string) string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		recorder := &recorder{ResponseWriter: w, code: http.StatusOK}
		next.ServeHTTP(recorder, r)
		body := recorder.body.String()
		if recorder.code == http.StatusOK && strings.Contains(r.URL.Path, "create") {
			body = change(body)
		}
		w.WriteHeader(recorder.code)
		_, _ = io.WriteString(w, body)
	}
}

type recorder struct {
	http.ResponseWriter
	code int
	body bytes.Buffer
}

func (r *recorder) WriteHeader(code int)        { r.code = code }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

func asPost(w http.ResponseWriter, r *http.Request, next http.Handler) {
	r.Method = http.MethodPost
	next.ServeHTTP(w, r)
}

// emptyBody treats any body as an empty request.
func emptyBody(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader("{}")), 2
	next.ServeHTTP(w, r)
}

func noOlderCluster(w http.ResponseWriter, r *http.Request, next http.Handler) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte("v1beta1"), []byte("v1beta9")))),
		int64(len(body))
	if bytes.Contains(body, []byte("cluster.x-k8s.io/v1beta1")) {
		http.Error(w, "unknown version", http.StatusInternalServerError)
		return
	}
	next.ServeHTTP(w, r)
}

func fail500(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if strings.Contains(r.URL.Path, "create") {
		http.Error(w, "broken", http.StatusInternalServerError)
		return
	}
	next.ServeHTTP(w, r)
}

// limit fails calls when more of them run at the same time than its field most allows.
type limit struct {
	most    int64
	running atomic.Int64
}

func (l *limit) spoil(w http.ResponseWriter, r *http.Request, next http.Handler) {
	defer l.running.Add(-1)
	if l.running.Add(1) > l.most {
		http.Error(w, "too many", http.StatusServiceUnavailable)
		return
	}
	if strings.Contains(r.URL.Path, "create") { // long enough for others to arrive
		select {
		case <-time.After(300 * time.Millisecond):
		case <-r.Context().Done():
		}
	}
	next.ServeHTTP(w, r)
}

// fragile breaks for good when it gets a body that is too large.
type fragile struct{ broken atomic.Bool }

func (f *fragile) spoil(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if r.ContentLength > 20<<20 {
		f.broken.Store(true)
	}
	if f.broken.Load() {
		panic(http.ErrAbortHandler)
	}
	next.ServeHTTP(w, r)
}
