package cloudconfig

import (
	"errors"
	"regexp"
	"strings"

	"github.com/capstan-dev/capstan/agent/fault"
)

// render fills in the template's variables. It supports the subset of Jinja that refers to values: {{ expression }}
// with filters, comments {# #}, raw blocks, and the marks "-" that remove white space. Statements such as {% if %} are
// an error.
//
// Like cloud-init, it removes the line break after a block or comment. Unlike cloud-init, which would write a made-up
// value into the host's files, it treats an unknown variable as an error.
func render(text string, vars map[string]any) (string, error) {
	var out strings.Builder
	line := 1
	stripNext := false // the last tag ended in "-"
	for {
		start := nextTag(text)
		literal := text
		if start >= 0 {
			literal = text[:start]
		}
		lines := strings.Count(literal, "\n")
		if start >= 0 && strings.HasPrefix(text[start+2:], "-") {
			literal = strings.TrimRight(literal, whiteSpace)
		}
		if stripNext {
			literal = strings.TrimLeft(literal, whiteSpace)
		}
		out.WriteString(literal)
		if start < 0 {
			return out.String(), nil
		}
		line += lines
		t, err := readTag(text[start:])
		if err != nil {
			return "", fault.New(err, "template error in line %d", line)
		}
		switch t.kind {
		case '{':
			value, err := evaluate(t.body, vars)
			if err != nil {
				return "", fault.New(err, "template error in line %d", line)
			}
			if out.Len()+len(value) > sizeLimit {
				return "", fault.New(nil, "template error in line %d: the bootstrap data becomes larger than %d bytes",
					line, sizeLimit)
			}
			out.WriteString(value)
		case '%':
			out.WriteString(t.raw)
		}
		line += strings.Count(text[start:start+t.size], "\n")
		text = text[start+t.size:]
		stripNext = t.strip
		if t.kind != '{' && !t.strip && strings.HasPrefix(text, "\n") {
			text, line = text[1:], line+1
		}
	}
}

const whiteSpace = " \t\r\n\v\f"

// nextTag returns the index of the next "{{", "{%" or "{#", or -1.
func nextTag(text string) int {
	for from := 0; ; {
		i := strings.IndexByte(text[from:], '{')
		if i < 0 || from+i+1 >= len(text) {
			return -1
		}
		switch text[from+i+1] {
		case '{', '%', '#':
			return from + i
		}
		from += i + 1
	}
}

// tag is one tag of a template.
type tag struct {
	kind  byte // '{', '%' or '#'
	body  string
	raw   string // text of a raw block
	size  int    // length of the whole tag
	strip bool   // remove the white space after the tag
}

var (
	rawStart = regexp.MustCompile(`^\{%[-+]?\s*raw\s*(-?)%\}`)
	rawEnd   = regexp.MustCompile(`\{%([-+]?)\s*endraw\s*([-+]?)%\}`)
)

// readTag reads the tag at the start of text.
func readTag(text string) (tag, error) {
	t := tag{kind: text[1]}
	switch t.kind {
	case '#':
		end := strings.Index(text[2:], "#}")
		if end < 0 {
			return t, fault.New(nil, "a comment has no end")
		}
		t.size, t.strip = end+4, end > 0 && text[1+end] == '-'
		return t, nil
	case '%':
		start := rawStart.FindStringSubmatchIndex(text)
		if start == nil {
			return t, fault.New(nil, "only variables and raw blocks are supported, not statements")
		}
		inner := text[start[1]:]
		end := rawEnd.FindStringSubmatchIndex(inner)
		if end == nil {
			return t, fault.New(nil, "a raw block has no end")
		}
		t.raw = inner[:end[0]]
		if start[2] != start[3] {
			t.raw = strings.TrimLeft(t.raw, whiteSpace)
		}
		if inner[end[2]:end[3]] == "-" {
			t.raw = strings.TrimRight(t.raw, whiteSpace)
		}
		t.size, t.strip = start[1]+end[1], inner[end[4]:end[5]] == "-"
		return t, nil
	}
	end, err := expressionEnd(text)
	if err != nil {
		return t, err
	}
	t.body, t.size = text[2:end], end+2
	if strings.HasPrefix(t.body, "-") || strings.HasPrefix(t.body, "+") {
		t.body = t.body[1:]
	}
	t.body, t.strip = strings.CutSuffix(t.body, "-")
	return t, nil
}

// expressionEnd returns the index of the "}}" that ends the expression at the start of text, ignoring quoted text.
func expressionEnd(text string) (int, error) {
	var quote byte
	for i := 2; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
		case c == '\'' || c == '"':
			quote = c
		case c == '}' && strings.HasPrefix(text[i:], "}}"):
			return i, nil
		}
	}
	return 0, fault.New(errors.New("no }}"),
		"an expression has no end; put text that is not part of the template into a raw block")
}
