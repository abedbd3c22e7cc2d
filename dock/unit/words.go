package unit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// split splits a line into words as systemd does: single and double quotes group, a backslash escapes, "%%" is a
// percent sign.
func split(line string) ([]string, error) {
	var out []string
	var word strings.Builder
	inWord, quote := false, byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\\':
			r, n, err := escape(line[i+1:])
			if err != nil {
				return nil, err
			}
			word.WriteString(r)
			i += n
			inWord = true
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				word.WriteByte(c)
			}
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if inWord {
				out = append(out, word.String())
				word.Reset()
				inWord = false
			}
		case c == '%':
			if i+1 >= len(line) || line[i+1] != '%' {
				return nil, errors.New(`specifiers other than "%%" are not supported on local hosts`)
			}
			word.WriteByte('%')
			i++
			inWord = true
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("unbalanced quote %c", quote)
	}
	if inWord {
		out = append(out, word.String())
	}
	return out, nil
}

// escape decodes what follows a backslash; n is the number of bytes that it consumed.
func escape(s string) (text string, n int, err error) {
	if s == "" {
		return "", 0, errors.New("a backslash at the end")
	}
	if i := strings.IndexByte(`abfnrtvs\"' $`, s[0]); i >= 0 {
		return "\a\b\f\n\r\t\v \\\"' $"[i : i+1], 1, nil
	}
	width, base := 0, 16
	switch {
	case s[0] == 'x':
		width = 2
	case s[0] == 'u':
		width = 4
	case s[0] >= '0' && s[0] <= '7':
		s, width, base = "0"+s, 3, 8 // normalize the form: a letter, then digits
	default:
		return "", 0, fmt.Errorf(`unknown escape sequence \%c`, s[0])
	}
	if len(s) < 1+width {
		return "", 0, errors.New("an incomplete escape sequence")
	}
	code, err := strconv.ParseUint(s[1:1+width], base, 32)
	if err != nil || (base == 8 && code > 255) {
		return "", 0, fmt.Errorf(`bad escape sequence \%s`, s[:1+width])
	}
	if s[0] == 'u' {
		return string(rune(code)), 1 + width, nil
	}
	if base == 8 {
		return string([]byte{byte(code)}), width, nil
	}
	return string([]byte{byte(code)}), 1 + width, nil
}

// Expand returns the words to execute. It replaces "${NAME}" in place, replaces a word that is only "$NAME" by the
// words of the value (none if it is empty), and turns "$$" into a dollar sign. env holds NAME=VALUE; later ones win.
func (c Command) Expand(env []string) []string {
	if c.NoExpand {
		return c.Argv
	}
	values := map[string]string{}
	for _, pair := range env {
		if name, value, ok := strings.Cut(pair, "="); ok {
			values[name] = value
		}
	}
	var out []string
	for i, word := range c.Argv {
		if name, ok := strings.CutPrefix(word, "$"); ok && i > 0 && isName(name) {
			if parts, err := split(strings.ReplaceAll(values[name], "%", "%%")); err == nil {
				out = append(out, parts...)
			} else {
				out = append(out, strings.Fields(values[name])...)
			}
			continue
		}
		out = append(out, expandWord(word, values))
	}
	return out
}

func expandWord(word string, values map[string]string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(word, '$')
		if i < 0 || i+1 == len(word) {
			b.WriteString(word)
			return b.String()
		}
		b.WriteString(word[:i])
		rest := word[i+1:]
		if rest[0] == '$' {
			b.WriteByte('$')
			word = rest[1:]
			continue
		}
		if end := strings.IndexByte(rest, '}'); rest[0] == '{' && end > 0 && isName(rest[1:end]) {
			b.WriteString(values[rest[1:end]])
			word = rest[end+1:]
			continue
		}
		b.WriteByte('$')
		word = rest
	}
}

func isName(s string) bool {
	for i, r := range s {
		letter := r == '_' || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z')
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}
