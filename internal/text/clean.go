package text

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// hidden replaces what must not reach a terminal.
const hidden = unicode.ReplacementChar

// Clean returns s without what changes how a terminal shows other text: control characters, except for line feeds and
// tabs, characters that change the direction of writing, and bytes that are not UTF-8. Each is replaced by U+FFFD.
func Clean(s string) string { return strings.Map(clean, s) }

func clean(r rune) rune {
	switch {
	case r == '\n', r == '\t':
		return r
	case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029':
		return hidden
	}
	return r // strings.Map and Writer give U+FFFD for what is not UTF-8
}

// Writer returns a writer that passes on what is written to it as [Clean] does, for text of others on its way to a
// terminal. A character may come in several writes; one that never gets complete is dropped.
func Writer(to io.Writer) io.Writer { return &writer{to: to} }

type writer struct {
	to   io.Writer
	rest []byte // the begin of a character
}

// Write reports all of p as written unless the writer below fails.
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
