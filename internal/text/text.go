// Package text shortens and counts, for people who read lines.
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

// Count returns a number of things: "1 worker", "2 workers".
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
