package nft

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// token is a word, a sign, or quoted text.
type token struct {
	text   string
	quoted bool
}

// words is the rest of a line that is being parsed.
type words struct{ rest []token }

// split splits a line into tokens. knftables separates all signs except commas from words by spaces.
func split(line string) (*words, error) {
	w := &words{}
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] == '"' {
			end := strings.IndexByte(line[1:], '"')
			if end < 0 {
				return nil, errors.New("a quote is not closed")
			}
			text := line[1 : 1+end]
			if strings.ContainsRune(text, '\\') {
				return nil, fmt.Errorf("quotes can't have a backslash: %q", text)
			}
			w.rest, line = append(w.rest, token{text, true}), line[2+end:]
			continue
		}
		if line[0] == ',' {
			w.rest, line = append(w.rest, token{text: ","}), line[1:]
			continue
		}
		end := strings.IndexAny(line, " \t\",")
		if end < 0 {
			end = len(line)
		}
		w.rest, line = append(w.rest, token{text: line[:end]}), line[end:]
	}
	return w, nil
}

// done reports whether the line has ended.
func (w *words) done() bool { return len(w.rest) == 0 }

// sees reports whether these words come next.
func (w *words) sees(want ...string) bool {
	return len(w.rest) >= len(want) && slices.EqualFunc(w.rest[:len(want)], want, func(t token, want string) bool {
		return !t.quoted && t.text == want
	})
}

// takes consumes these words if they come next, and reports whether they did.
func (w *words) takes(want ...string) bool {
	if !w.sees(want...) {
		return false
	}
	w.rest = w.rest[len(want):]
	return true
}

// next consumes and returns a word. It returns "" at the end of the line or before quoted text.
func (w *words) next() string {
	if w.done() || w.rest[0].quoted {
		return ""
	}
	text := w.rest[0].text
	w.rest = w.rest[1:]
	return text
}

// must consumes these words, or returns an error.
func (w *words) must(want ...string) error {
	if !w.takes(want...) {
		return w.unexpected(strings.Join(want, " "))
	}
	return nil
}

// unexpected returns the error for a line in which something else follows where wanted should.
func (w *words) unexpected(wanted string) error {
	if w.done() {
		return fmt.Errorf("want %s, the line has ended", wanted)
	}
	return fmt.Errorf("want %s, not %q", wanted, w.rest[0].text)
}

// quoted consumes quoted text.
func (w *words) quoted() (string, error) {
	if w.done() || !w.rest[0].quoted {
		return "", w.unexpected("a text in quotes")
	}
	text := w.rest[0].text
	w.rest = w.rest[1:]
	return text, nil
}

// number consumes a number.
func (w *words) number(bits int) (uint64, error) {
	text := w.next()
	n, err := strconv.ParseUint(text, 0, bits)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return n, nil
}

// identifier matches the name of a table, chain, set or map.
var identifier = regexp.MustCompile(`^[A-Za-z_.][A-Za-z0-9_./-]*$`)

// maxName is the maximum length of a name.
const maxName = 255

// name consumes a name.
func (w *words) name() (string, error) {
	text := w.next()
	if len(text) > maxName || !identifier.MatchString(text) {
		return "", fmt.Errorf("%q is not a name", text)
	}
	return text, nil
}

// parts consumes values joined by dots, such as "10.0.0.1 . tcp . 80".
func (w *words) parts() ([]string, error) {
	var parts []string
	for {
		part := w.next()
		if part == "" {
			return nil, w.unexpected("a value")
		}
		parts = append(parts, part)
		if !w.takes(".") {
			return parts, nil
		}
	}
}

// verdict consumes a verdict.
func (w *words) verdict() (verdict, error) {
	text := w.next()
	code, ok := verdicts[text]
	if !ok {
		return verdict{}, fmt.Errorf("%q is not a verdict", text)
	}
	v := verdict{code: code}
	if text != "jump" && text != "goto" {
		return v, nil
	}
	chain, err := w.name()
	v.chain = chain
	return v, err
}
