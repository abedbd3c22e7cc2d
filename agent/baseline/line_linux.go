package baseline

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// appendTo appends the entry as a line.
func (e entry) appendTo(b []byte) []byte {
	b = appendQuoted(b, e.path)
	b = strconv.AppendUint(append(b, ' '), uint64(e.mode), 8)
	for _, n := range [...]int64{int64(e.uid), int64(e.gid), e.size, e.mtime, e.ctime} {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	for _, s := range [...]string{e.digest, e.rights} {
		b = append(append(b, ' '), cmp.Or(s, "-")...)
	}
	return append(b, '\n')
}

// appendQuoted does the same as strconv.AppendQuote, which is slow for the characters that most paths consist of.
func appendQuoted(b []byte, path string) []byte {
	for n := range len(path) {
		if c := path[n]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return strconv.AppendQuote(b, path)
		}
	}
	return append(append(append(b, '"'), path...), '"')
}

// parse parses a line, given without its line break.
func parse(line string) (e entry, err error) {
	quoted, err := strconv.QuotedPrefix(line)
	if err != nil {
		return e, damaged(err)
	}
	if e.path, err = strconv.Unquote(quoted); err != nil {
		return e, damaged(err)
	}
	rest := line[len(quoted):]
	field := func() string {
		var text string
		rest = strings.TrimPrefix(rest, " ")
		text, rest, _ = strings.Cut(rest, " ")
		return text
	}
	var errs [6]error
	unsigned := func(n, base int) uint32 {
		var value uint64
		value, errs[n] = strconv.ParseUint(field(), base, 32)
		return uint32(value)
	}
	signed := func(n int) (value int64) {
		value, errs[n] = strconv.ParseInt(field(), 10, 64)
		return value
	}
	e.mode, e.uid, e.gid = unsigned(0, 8), unsigned(1, 10), unsigned(2, 10)
	e.size, e.mtime, e.ctime = signed(3), signed(4), signed(5)
	e.digest, e.rights = field(), field()
	if e.digest == "" || e.rights == "" || rest != "" {
		err = errors.New("it does not have nine fields")
	}
	if err := errors.Join(append(errs[:], err)...); err != nil {
		return e, damaged(err)
	}
	for _, s := range []*string{&e.digest, &e.rights} {
		if *s == "-" {
			*s = ""
		}
	}
	return e, nil
}

func damaged(err error) error { return fmt.Errorf("a line of the baseline is damaged: %w", err) }

// order compares paths in the order of a walk: the contents of a directory come directly after it.
func order(a, b string) int {
	for n := range min(len(a), len(b)) {
		if x, y := a[n], b[n]; x != y {
			switch {
			case x == '/':
				return -1
			case y == '/':
				return 1
			}
			return cmp.Compare(x, y)
		}
	}
	return cmp.Compare(len(a), len(b))
}
