package text

import "testing"

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                    "",
		"a:\n  waits":         "a: waits",
		"0123456789":          "0123456789",
		"0123456789a":         "012345678…",
		"äöüäöüäöüä and more": "äöüäöüäöü…",
	} {
		if got := OneLine(in, 10); got != want {
			t.Errorf("OneLine(%q, 10) = %q, want %q", in, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 workers", 1: "1 worker", 2: "2 workers"} {
		if got := Count(n, "worker"); got != want {
			t.Errorf("Count returned %q, want %q", got, want)
		}
	}
}
