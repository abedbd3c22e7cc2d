//go:build linux

package contract

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
)

// coreWrites notes what core writes to our objects.
type coreWrites struct {
	mu      sync.Mutex
	patches []corePatch
	made    []string
}

// corePatch is one change of an object.
type corePatch struct{ path, body string }

func (c *coreWrites) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet || !strings.HasPrefix(r.URL.Path, "/apis/infrastructure.capstan.dev/") || r.Body == nil {
			return next.RoundTrip(r)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		_ = r.Body.Close()
		r.Body = io.NopCloser(bytes.NewReader(body))
		c.mu.Lock()
		switch r.Method {
		case http.MethodPost:
			c.made = append(c.made, r.URL.Path)
		case http.MethodPatch, http.MethodPut:
			c.patches = append(c.patches, corePatch{r.Method + " " + r.URL.Path, string(body)})
		}
		c.mu.Unlock()
		return next.RoundTrip(r)
	})
}

// check fails the test if core changed more than metadata of an object (RB-11), but for machines of sets: their spec is that of the template, which
// is empty here.
func (c *coreWrites) check(w *world) {
	w.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	made := map[string]bool{}
	for _, p := range c.patches {
		fields := map[string]json.RawMessage{}
		w.must(json.Unmarshal([]byte(p.body), &fields))
		applied := fields["kind"] != nil // server-side apply names the whole object
		if applied && fields["spec"] != nil {
			made[p.path] = true
		}
		for name, value := range fields {
			switch {
			case name == "metadata", applied && (name == "apiVersion" || name == "kind"), applied && name == "spec" && string(value) == "{}":
			default:
				w.Errorf("core changed more than metadata: %s %s", p.path, p.body)
			}
			w.Attr("rule", "RB-11")
		}
	}
	if len(c.patches) < 5 || len(made) == 0 {
		w.Errorf("core changed objects %d times and made %d: the test looks in the wrong place", len(c.patches), len(made))
	}
	if len(c.made) > 0 {
		w.Errorf("core made objects at %v", c.made)
	}
}
