package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// commandOf matches a line of a code block that runs capstan, without its end: a comment, a pipe, a redirection.
var commandOf = regexp.MustCompile(`^(?:    |)(?:[A-Z_]+=\S+ |sudo |\$ )*(?:bin/)?capstan ([^#|>;&]*)`)

// TestDocsHaveCommandsThatExist checks the capstan commands in code blocks of the README and of all pages: names,
// arguments and flags. It runs none of them. TestTheTutorialHasCommandsThatExist checks the tutorial more closely.
func TestDocsHaveCommandsThatExist(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range append(pages, "../../README.md", "../../CONTRIBUTING.md") {
		if filepath.Base(page) == "tutorial.md" {
			continue
		}
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range codeLines(string(data)) {
			found := commandOf.FindStringSubmatch(line)
			if found == nil || strings.ContainsAny(found[1], "[…") { // a synopsis
				continue
			}
			checked++
			if err := accepts(shellWords(found[1])); err != nil {
				t.Errorf("%s: %q: %v", filepath.Base(page), strings.TrimSpace(line), err)
			}
		}
	}
	if checked < 70 {
		t.Errorf("%d commands were checked: the pattern does not fit any more", checked)
	}
}

// codeLines returns the lines of code blocks, fenced or indented, with continued lines joined.
func codeLines(page string) []string {
	var lines []string
	fenced, open := false, false
	for _, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		if !fenced && !strings.HasPrefix(line, "    ") {
			open = false
			continue
		}
		text, continues := strings.CutSuffix(line, "\\")
		if open {
			lines[len(lines)-1] += strings.TrimSpace(text)
		} else {
			lines = append(lines, text)
		}
		open = continues
	}
	return lines
}

// shellWords splits a command as a shell does, as far as the pages need it: quotes group words.
func shellWords(command string) []string {
	var words []string
	for _, word := range regexp.MustCompile(`(?:[^\s"']|"[^"]*"|'[^']*')+`).FindAllString(command, -1) {
		words = append(words, strings.NewReplacer(`"`, "", `'`, "").Replace(word))
	}
	return words
}
