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

// objectWrites records what core or the provider writes to our objects.
type objectWrites struct {
	mu      sync.Mutex
	patches []objectPatch
	made    []string
}

// objectPatch is one change of an object.
type objectPatch struct{ path, body string }

func (c *objectWrites) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet || !strings.HasPrefix(r.URL.Path, "/apis/infrastructure.capstan.dev/") ||
			r.Body == nil {
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
			c.patches = append(c.patches, objectPatch{r.Method + " " + r.URL.Path, string(body)})
		}
		c.mu.Unlock()
		return next.RoundTrip(r)
	})
}

// check fails the test if core changed more than metadata of an object (RB-11). Machines of sets are an exception:
// their spec comes from the template, which is empty here.
func (c *objectWrites) check(w *world) {
	w.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	made := map[string]bool{}
	for _, p := range c.patches {
		fields := map[string]json.RawMessage{}
		w.must(json.Unmarshal([]byte(p.body), &fields))
		applied := fields["kind"] != nil // only the body of a server-side apply names the kind
		if applied && fields["spec"] != nil {
			made[p.path] = true
		}
		for name, value := range fields {
			switch {
			case name == "metadata",
				applied && (name == "apiVersion" || name == "kind"),
				applied && name == "spec" && string(value) == "{}":
			default:
				w.Errorf("core changed more than metadata: %s %s", p.path, p.body)
			}
		}
	}
	if len(c.patches) < 5 || len(made) == 0 {
		w.Errorf(
			"core patched objects %d times and made %d of them: the test looks in the wrong place",
			len(c.patches),
			len(made),
		)
	}
	if len(c.made) > 0 {
		w.Errorf("core created objects without server-side apply at %v", c.made)
	}
	w.Attr("rule", "RB-11")
}

// checkOwn fails the test if the provider wrote an object, for example capstanmachines/w1, in any way other than by
// patches of what it owns: finalizers, status, and one field of the spec. The last patch must have removed the
// finalizer.
func (c *objectWrites) checkOwn(w *world, object, field string) {
	w.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var last string
	names := map[string]bool{}
	for _, p := range c.patches {
		path := strings.TrimSuffix(p.path, "/status")
		if !strings.HasSuffix(path, "/"+object) {
			continue
		}
		if !strings.HasPrefix(path, http.MethodPatch+" ") {
			w.Errorf("the provider wrote %s, want a patch", p.path)
		}
		parts := map[string]map[string]json.RawMessage{}
		w.must(json.Unmarshal([]byte(p.body), &parts))
		for part, fields := range parts {
			for name := range fields {
				names[part+"."+name] = true
				own := part == "status" && p.path != path || part == "spec" && name == field ||
					part == "metadata" && (name == "finalizers" || name == "resourceVersion")
				if !own {
					w.Errorf("the provider wrote %s.%s, which it does not own: %s %s", part, name, p.path, p.body)
				}
			}
		}
		last = p.body
	}
	if !names["spec."+field] || !names["metadata.finalizers"] || !names["status.conditions"] {
		w.Errorf("the provider wrote %v: the test looks in the wrong place", names)
	}
	if !strings.Contains(last, `"finalizers":null`) {
		w.Errorf("the last patch of %s is %s, want one that removes the finalizer", object, last)
	}
}
