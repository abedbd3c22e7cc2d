// Package text prepares text for people: it shortens text, counts things, and removes what could confuse a terminal.
package text

import (
	"fmt"
	"strings"
)

// OneLine returns s as one line of at most n runes.
func OneLine(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// Count returns a number of things, such as "1 worker" or "2 workers".
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
