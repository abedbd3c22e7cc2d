package idrange

import (
	"fmt"
	"testing"
)

func TestSame(t *testing.T) {
	for mapping, want := range map[string]string{
		"0 1000 1\n1 100000 65535\n": "[{0 0 1} {1 1 65535}]",
		"0 1000 1\n1 100000 70000\n": "[{0 0 1} {1 1 65535}]",
		"0 0 4294967295\n":           "[{0 0 65536}]",
		"0 1000 1\n":                 "[]",
		"0 1000 1\n1 100000 1000\n":  "[]",
		"":                           "[]",
	} {
		if got := fmt.Sprint(Same(mapping)); got != want {
			t.Errorf("%q: got %s, want %s", mapping, got, want)
		}
	}
}
