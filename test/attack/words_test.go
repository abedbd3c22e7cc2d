//go:build linux

package attack

import (
	"fmt"
	"net/http"
	"strings"
)

func get(path string) request         { return request{verb: http.MethodGet, path: path} }
func del(path string) request         { return request{verb: http.MethodDelete, path: path} }
func post(path, body string) request  { return request{verb: http.MethodPost, path: path, body: body} }
func patch(path, body string) request { return request{verb: http.MethodPatch, path: path, body: body} }

// headed adds a header to a request.
func headed(r request, header string) request {
	r.header = header
	return r
}

// kind replaces %KIND% in a body by the kind.
func kind(body, kind string) string { return strings.ReplaceAll(body, "%KIND%", kind) }

// long returns a word of n letters.
func long(n int) string { return strings.Repeat("x", n) }

// list returns n quoted words of the given length, as elements of a list.
func list(n, length int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprintf("%q", long(length))
	}
	return strings.Join(words, ",")
}

// many returns a list of n conditions.
func many(n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(
			`{type: X%d, status: "True", reason: R, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}`, i)
	}
	return "[" + strings.Join(items, ", ") + "]"
}
