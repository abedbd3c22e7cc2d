package docs

import (
	"regexp"
	"strings"
	"testing"
)

var item = regexp.MustCompile(`^([-*]|\d+\.) `)

// TestIndentedCodeIsWhole checks that no line of an indented code block has lost its indentation, for example when
// somebody filled a paragraph: such a line becomes text, and splits the block.
func TestIndentedCodeIsWhole(t *testing.T) {
	checked := 0
	for _, page := range pages(t) {
		n, torn := tornCode(read(t, page))
		checked += n
		for _, line := range torn {
			t.Errorf("%s:%d: put an empty line between text and code, or indent this line", page, line)
		}
	}
	if checked < 200 {
		t.Errorf("only %d lines of code were checked: the pattern no longer matches", checked)
	}
}

// tornCode returns how many lines of indented code a page has outside of lists, and the numbers of the lines directly
// before or after them that are text.
func tornCode(page string) (checked int, torn []int) {
	lines := strings.Split(page, "\n")
	text := func(i int) bool {
		return i >= 0 && i < len(lines) && lines[i] != "" && lines[i][0] != ' ' && !strings.HasSuffix(lines[i], "-->")
	}
	fenced, inList := false, false
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced:
		case item.MatchString(line):
			inList = true
		case text(i):
			inList = inList && lines[i-1] != "" // a paragraph at the margin ends the list
		case strings.HasPrefix(line, "    ") && !inList:
			checked++
			if text(i - 1) {
				torn = append(torn, i)
			}
			if text(i + 1) {
				torn = append(torn, i+2)
			}
		}
	}
	return checked, torn
}

func TestTornCode(t *testing.T) {
	for page, want := range map[string]int{
		"text\n\n    code\n\ntext":               0,
		"text\n\n    code\nlost\n\ntext":         1,
		"text\n\n    code\nlost\n    code\n":     2,
		"- item\n\n    goes on\n- item":          0,
		"```sh\n    code\ncode\n```":             0,
		"<!-- not run: no -->\n    code\n\ntext": 0,
	} {
		if _, torn := tornCode(page); len(torn) != want {
			t.Errorf("%q: got lines %d, want %d of them", page, torn, want)
		}
	}
}
