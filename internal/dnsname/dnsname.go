// Package dnsname distinguishes names that may be resolved from texts that only look like names.
package dnsname

import (
	"regexp"
	"strings"
)

// name matches a name of RFC 1123 whose last label begins with a letter: programs disagree about what 127.1, 2130706433
// and 0x7f.1 are.
var name = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\.)*([a-z]([-a-z0-9]{0,61}[a-z0-9])?)$`)

// Valid reports whether a text is the name of a computer. It returns false for names that always mean this computer,
// such as localhost.
func Valid(text string) bool {
	text = strings.ToLower(text)
	return len(text) <= 253 && name.MatchString(text) && text != "localhost" && !strings.HasSuffix(text, ".localhost")
}
