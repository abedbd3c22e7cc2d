// Package dnsname tells names that may be resolved from what only looks like one.
package dnsname

import (
	"regexp"
	"strings"
)

// name is a name as RFC 1123 has it, whose last label begins with a letter: programs disagree about what 127.1,
// 2130706433 and 0x7f.1 are.
var name = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\.)*([a-z]([-a-z0-9]{0,61}[a-z0-9])?)$`)

// Valid reports whether a text is the name of a computer that is not this one by definition, as localhost is.
func Valid(text string) bool {
	text = strings.ToLower(text)
	return len(text) <= 253 && name.MatchString(text) && text != "localhost" && !strings.HasSuffix(text, ".localhost")
}
