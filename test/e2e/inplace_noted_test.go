package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// noted writes down the calls of a handler before it answers them.
type noted struct {
	http.Handler
	to io.Writer
}

var noting sync.Mutex

func (n noted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	_, path, _ := strings.Cut(r.URL.Path, "/hooks.runtime.cluster.x-k8s.io/") // what is before it is the extension's own
	parts := append(strings.Split(path, "/"), "", "")
	line, err := json.Marshal(map[string]any{"time": time.Now(), "hook": parts[1], "handler": parts[2], "request": json.RawMessage(body)})
	if err == nil {
		noting.Lock()
		_, err = n.to.Write(append(line, '\n'))
		noting.Unlock()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	n.Handler.ServeHTTP(w, r)
}
