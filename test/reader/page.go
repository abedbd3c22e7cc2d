package reader

import (
	"fmt"
	"regexp"
	"strings"
)

// Marks are HTML comments directly above a block.
const (
	// markNotRun is followed by the reason why a block can't run here.
	markNotRun = "not run: "
	// markServes is followed by a URL. The last command of the block runs until the test ends, and answers there.
	markServes = "serves: "
	// markAnotherShell means that a reader types the block in a new shell, in the root of the repository.
	markAnotherShell = "another shell"
)

// block is a code block with commands.
type block struct {
	line         int
	commands     []command
	notRun       string
	serves       string
	anotherShell bool
}

// command is what a reader types, and the output that the page shows below it, if any.
type command struct {
	line  int
	text  string
	shown []string
}

// blocks returns the blocks of a page that have commands: those with the fence "sh", and indented ones. It refuses
// fences without a language, and comments that are not marks. Pure.
func blocks(page string) ([]block, error) {
	var all []block
	var marks block
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch fence, isFence := strings.CutPrefix(line, "```"); {
		case strings.HasPrefix(line, "<!--"):
			end := i
			for end < len(lines) && !strings.HasSuffix(lines[end], "-->") {
				end++
			}
			if end == len(lines) {
				return nil, fmt.Errorf("line %d: the comment has no end", i+1)
			}
			if err := marks.mark(strings.Join(lines[i:end+1], " ")); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			i = end
			continue
		case isFence:
			end := i + 1
			for end < len(lines) && lines[end] != "```" {
				end++
			}
			switch {
			case end == len(lines):
				return nil, fmt.Errorf("line %d: the block has no end", i+1)
			case fence == "":
				return nil, fmt.Errorf("line %d: the fence doesn't say what is in the block: sh for commands", i+1)
			case fence == "sh":
				all = append(all, marks.with(i+2, lines[i+1:end]))
			case !marks.isZero():
				return nil, fmt.Errorf("line %d: a mark is above a block without commands", i+1)
			}
			i = end
		case strings.HasPrefix(line, "    ") && (i == 0 || lines[i-1] == "" || strings.HasSuffix(lines[i-1], "-->")):
			end := i
			for end < len(lines) && (strings.HasPrefix(lines[end], "    ") || lines[end] == "") {
				end++
			}
			all = append(all, marks.with(i+1, lines[i:end]))
			i = end - 1
		case line == "":
			continue
		case !marks.isZero():
			return nil, fmt.Errorf("line %d: a mark is above text, want a block", i+1)
		}
		marks = block{}
	}
	return all, nil
}

func (b *block) isZero() bool { return b.notRun == "" && b.serves == "" && !b.anotherShell }

// mark adds the mark in a comment to the block.
func (b *block) mark(comment string) error {
	text := strings.Join(strings.Fields(strings.TrimSuffix(strings.TrimPrefix(comment, "<!--"), "-->")), " ")
	if reason, is := strings.CutPrefix(text, markNotRun); is {
		b.notRun = reason
	} else if url, is := strings.CutPrefix(text, markServes); is {
		b.serves = url
	} else if text == markAnotherShell {
		b.anotherShell = true
	} else {
		return fmt.Errorf("the comment %q is no mark: %q, %q or %q", text, markNotRun, markServes, markAnotherShell)
	}
	return nil
}

var note = regexp.MustCompile(`\s+# .*$`)

// with returns the block with the commands in its lines. If any line begins with "$ ", only such lines are commands,
// and the others are their output; otherwise every line is a command.
func (b block) with(first int, lines []string) block {
	b.line = first
	prompts, open := false, false
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "    ")
		prompts = prompts || strings.HasPrefix(lines[i], "$ ")
	}
	for i, line := range lines {
		typed, is := strings.CutPrefix(line, "$ ")
		last := len(b.commands) - 1
		switch {
		case open:
			b.commands[last].text += "\n" + line
			open = strings.HasSuffix(line, `\`)
		case strings.TrimSpace(line) == "":
		case is || !prompts:
			b.commands = append(b.commands, command{line: first + i, text: note.ReplaceAllString(typed, "")})
			open = strings.HasSuffix(typed, `\`)
		case last >= 0:
			b.commands[last].shown = append(b.commands[last].shown, line)
		}
	}
	return b
}
