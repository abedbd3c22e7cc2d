package lint

import (
	"strings"
	"testing"
)

// FuzzParseExtensions: a file yields either ExtensionConfigs or an error, and the same result each time.
func FuzzParseExtensions(f *testing.F) {
	f.Add("kind: ExtensionConfig\nmetadata: {name: one}\n---\nkind: List\nitems: [{metadata: {name: two}}]\n")
	f.Add(`{"kind":"List","items":[{"status":{"handlers":[{"name":"a","timeoutSeconds":1}]}}]}`)
	f.Add("a: &a [*a]\n---\n\x00")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseExtensions(strings.NewReader(text), "a file")
		if (len(all) == 0) != (err != nil) {
			t.Fatalf("%d extensions, %v", len(all), err)
		}
		again, _ := ParseExtensions(strings.NewReader(text), "a file")
		if len(again) != len(all) {
			t.Fatalf("%d extensions, then %d", len(all), len(again))
		}
	})
}
