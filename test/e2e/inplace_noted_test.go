package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
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
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	line, err := json.Marshal(map[string]any{"hook": parts[min(2, len(parts)-1)], "request": json.RawMessage(body)})
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
