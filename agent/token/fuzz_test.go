package token

import (
	"testing"
	"time"
)

// FuzzToken: the content of a token file is used unchanged, whatever times it claims; a token without an expiry is
// always valid.
func FuzzToken(f *testing.F) {
	f.Add("a.eyJpYXQiOjEsImV4cCI6Mn0.c")
	f.Add("a.eyJpYXQiOi0xLCJleHAiOjkyMjMzNzIwMzY4NTQ3NzU4MDd9.c")
	f.Add("..")
	f.Fuzz(func(t *testing.T, text string) {
		read := parse(text, true)
		if read.text != text || !read.own {
			t.Fatalf("%q became %+v", text, read)
		}
		if read.expires.IsZero() && !read.valid(time.Now()) {
			t.Fatal("a token without an expiry is not valid")
		}
		if !read.expires.IsZero() && read.valid(read.expires) {
			t.Fatal("a token is valid at its expiry")
		}
	})
}
