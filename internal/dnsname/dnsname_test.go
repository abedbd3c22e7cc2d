package dnsname

import (
	"strings"
	"testing"
)

func TestValid(t *testing.T) {
	for text, want := range map[string]bool{
		"api.example.com": true, "API.Example.COM": true, "api": true, "1.example": true, "a-b.c0": true,
		"xn--bcher-kva.example": true, "": false, "localhost": false, "LocalHost": false, "x.localhost": false,
		"127.1": false, "127.0.0.1": false, "2130706433": false, "0x7f.1": false, "0x7f000001": false, "example.1": false,
		"::1": false, "a..b": false, ".a": false, "a.": false, "-a": false, "a-": false, "a_b": false, "a b": false,
		"a\n": false, "a:22": false, "bücher.example": false, strings.Repeat("a", 63): true,
		strings.Repeat("a", 64): false, strings.Repeat("a.", 127) + "a": false, strings.Repeat("a.", 126) + "a": true,
	} {
		if got := Valid(text); got != want {
			t.Errorf("Valid(%q) = %v", text, got)
		}
	}
}
