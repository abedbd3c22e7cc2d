package reader

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// left is the line that marks omitted lines on a page.
const left = "…"

// varies lists patterns that match text which differs in each run, with replacements. Kubernetes' random suffixes have
// no vowels.
var varies = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\s+`), " "},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "TIME"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(ns|µs|ms|s|m|h|d))+\b`), "DURATION"},
	{regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+\b`), "ADDRESS"},
	{regexp.MustCompile(`\bhost-\d+\b`), "HOST"},
	{regexp.MustCompile(`\bzone-[a-z]\b`), "ZONE"},
	{regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}\b`), "-SUFFIX"},
}

// normal returns a line with the varying parts replaced. Pure.
func normal(line string) string {
	for _, v := range varies {
		line = v.what.ReplaceAllString(line, v.as)
	}
	return strings.TrimSpace(line)
}

// compare returns an error if a command's output differs from its page. A line "…" on the page matches any lines.
// compare ignores empty lines, and lines that say what a step is waiting for, which capstan prints only if its output
// is not a terminal. Pure.
func compare(shown, printed []string) error {
	var rest []string
	for _, line := range printed {
		if line = strings.TrimRight(line, " \r"); line != "" && !strings.HasPrefix(line, "  "+left+" ") {
			rest = append(rest, normal(line))
		}
	}
	var parts [][]string // of the page's lines, between omissions
	part := []string{}
	for _, line := range shown {
		if strings.TrimSpace(line) == left {
			parts, part = append(parts, part), []string{}
			continue
		}
		part = append(part, normal(line))
	}
	parts = append(parts, part)
	for i, part := range parts {
		isLast := i == len(parts)-1
		from, to := 0, len(rest)-len(part)
		switch {
		case i == 0:
			to = min(to, 0)
		case isLast:
			from = to
		}
		at := -1
		for start := max(from, 0); start <= to && at < 0; start++ {
			if slices.Equal(part, rest[start:start+len(part)]) {
				at = start
			}
		}
		if at < 0 {
			return fmt.Errorf("the page shows\n\t%s\nwant these lines next in\n\t%s",
				strings.Join(part, "\n\t"), strings.Join(rest, "\n\t"))
		}
		rest = rest[at+len(part):]
	}
	if len(rest) > 0 && len(parts) == 1 {
		return fmt.Errorf("the page doesn't show\n\t%s", strings.Join(rest, "\n\t"))
	}
	return nil
}
