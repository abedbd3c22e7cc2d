package text

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// hidden replaces characters that must not reach a terminal.
const hidden = unicode.ReplacementChar

// Clean returns s without anything that affects how a terminal shows other text. It replaces with U+FFFD: invalid
// UTF-8, characters that change the writing direction, and control characters except line feeds and tabs.
func Clean(s string) string { return strings.Map(clean, s) }

func clean(r rune) rune {
	switch {
	case r == '\n', r == '\t':
		return r
	case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029':
		return hidden
	}
	return r // strings.Map and Writer replace invalid UTF-8 with U+FFFD
}

// Writer returns a writer that applies [Clean] to untrusted text for a terminal. A character may be split over several
// writes; an incomplete character at the end is dropped.
func Writer(to io.Writer) io.Writer { return &writer{to: to} }

type writer struct {
	to   io.Writer
	rest []byte // the start of a character
}

// Write reports all of p as written unless the underlying writer fails.
func (w *writer) Write(p []byte) (int, error) {
	data := append(w.rest, p...)
	out := make([]byte, 0, len(data))
	for len(data) > 0 && (utf8.FullRune(data) || len(data) >= utf8.UTFMax) {
		r, size := utf8.DecodeRune(data)
		out = utf8.AppendRune(out, clean(r))
		data = data[size:]
	}
	w.rest = append([]byte(nil), data...)
	if _, err := w.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
