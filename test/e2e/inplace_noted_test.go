package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// noted records each call of a handler before the handler answers it. If there is a writer for answers, it records the
// answers, too.
type noted struct {
	http.Handler
	to, answers io.Writer
}

var noting sync.Mutex

func (n noted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err := note(n.to, r, "request", body); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if n.answers == nil {
		n.Handler.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	n.Handler.ServeHTTP(answer, r)
	if answer.Code == http.StatusOK {
		err = note(n.answers, r, "answer", answer.Body.Bytes())
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // the caller may be gone
}

// note writes one line: the time, the hook, the handler, and a request or an answer.
func note(to io.Writer, r *http.Request, name string, body []byte) error {
	// The part of the path before the group belongs to the extension.
	_, path, _ := strings.Cut(r.URL.Path, "/hooks.runtime.cluster.x-k8s.io/")
	parts := append(strings.Split(path, "/"), "", "")
	line, err := json.Marshal(map[string]any{
		"time": time.Now(), "hook": parts[1], "handler": parts[2], name: json.RawMessage(body),
	})
	if err != nil {
		return err
	}
	noting.Lock()
	defer noting.Unlock()
	_, err = to.Write(append(line, '\n'))
	return err
}
