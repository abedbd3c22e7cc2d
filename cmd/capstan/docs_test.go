package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// commandOf matches a line of a code block that runs capstan, up to a comment, a pipe or a redirection.
var commandOf = regexp.MustCompile(`^(?:    |)(?:[A-Z_]+=\S+ |sudo |\$ )*(?:bin/)?capstan ([^#|>;&]*)`)

// substitution matches what a shell replaces by the output of a command.
var substitution = regexp.MustCompile(`\$\([^)]*\)`)

// TestDocsHaveCommandsThatExist checks the capstan commands in code blocks of README.md, CONTRIBUTING.md and the pages
// in docs, without its subdirectories: names, arguments and flags. It runs none of them: test/reader runs those of the
// README and the tutorial.
func TestDocsHaveCommandsThatExist(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range append(pages, "../../README.md", "../../CONTRIBUTING.md") {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range codeLines(string(data)) {
			found := commandOf.FindStringSubmatch(substitution.ReplaceAllString(line, "v1.36.3"))
			if found == nil || strings.ContainsAny(found[1], "[…") || found[1] == "--version" { // a synopsis, or no command
				continue
			}
			checked++
			if err := accepts(shellWords(found[1])); err != nil {
				t.Errorf("%s: %q: %v", filepath.Base(page), strings.TrimSpace(line), err)
			}
		}
	}
	if checked < 90 {
		t.Errorf("only %d commands were checked, so the pattern no longer fits", checked)
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

// shellWords splits a command like a shell, as far as the pages need it: quotes group words.
func shellWords(command string) []string {
	var words []string
	for _, word := range regexp.MustCompile(`(?:[^\s"']|"[^"]*"|'[^']*')+`).FindAllString(command, -1) {
		words = append(words, strings.NewReplacer(`"`, "", `'`, "").Replace(word))
	}
	return words
}

// accepts returns an error if the words are not a valid command. It does not run them.
func accepts(words []string) error {
	root := (&app{}).rootCommand()
	if err := misspelled(root, words); err != nil {
		return err
	}
	cmd, rest, err := root.Find(words)
	if err != nil || cmd.DisableFlagParsing { // kubectl parses its own
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

func TestAcceptsFindsMistakes(t *testing.T) {
	for words, good := range map[string]bool{
		"cluster create demo":            true,
		"cluster create":                 false,
		"cluster create demo --nosuch 1": false,
		"cluster make demo":              false,
		"kubectl --cluster demo get x":   true,
	} {
		if err := accepts(strings.Fields(words)); (err == nil) != good {
			t.Errorf("is capstan %s a valid command? got error %v", words, err)
		}
	}
}
