package text

import (
	"errors"
	"strings"
	"testing"
)

var cleaned = map[string]string{
	"plain text, äöü, 日本, …├─":        "plain text, äöü, 日本, …├─",
	"lines\n\tand tabs\n":             "lines\n\tand tabs\n",
	"\x1b[2J\x1b]0;title\x07 cleared": "\uFFFD[2J\uFFFD]0;title\uFFFD cleared",
	"over\rwritten\b":                 "over\uFFFDwritten\uFFFD",
	"\u009b31m C1":                    "\uFFFD31m C1",
	"\x9b31m not UTF-8":               "\uFFFD31m not UTF-8",
	"ab\u202Ecd\u2066ef\u200F":        "ab\uFFFDcd\uFFFDef\uFFFD",
	"line\u2028separator":             "line\uFFFDseparator",
	"\x7f":                            "\uFFFD",
}

func TestClean(t *testing.T) {
	for in, want := range cleaned {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestWriter: however the bytes are split, the same text arrives.
func TestWriter(t *testing.T) {
	for in, want := range cleaned {
		for size := 1; size <= len(in); size++ {
			var b strings.Builder
			w := Writer(&b)
			for rest := []byte(in); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				piece := rest[:min(size, len(rest))]
				if n, err := w.Write(piece); n != len(piece) || err != nil {
					t.Fatalf("Write returned %d, %v", n, err)
				}
			}
			if b.String() != want {
				t.Errorf("%q in pieces of %d: got %q, want %q", in, size, b.String(), want)
			}
		}
	}
}

func TestWriterSaysWhatFails(t *testing.T) {
	w := Writer(failing{})
	if _, err := w.Write([]byte("x")); err == nil {
		t.Error("Write did not return the error")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func FuzzWriter(f *testing.F) {
	for in := range cleaned {
		f.Add([]byte(in), 3)
	}
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		if cut < 0 || cut > len(in) {
			return
		}
		var b strings.Builder
		w := Writer(&b)
		_, _ = w.Write(in[:cut])
		_, _ = w.Write(in[cut:])
		if whole := Clean(string(in)); !strings.HasPrefix(whole, b.String()) {
			t.Errorf("written in two pieces, the text is %q; as a whole, it is %q", b.String(), whole)
		}
		if Clean(b.String()) != b.String() {
			t.Errorf("%q is not clean", b.String())
		}
	})
}
