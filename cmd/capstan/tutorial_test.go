package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestTheTutorialHasCommandsThatExist checks the capstan commands in docs/tutorial.md: names, arguments and flags. It
// runs none of them.
func TestTheTutorialHasCommandsThatExist(t *testing.T) {
	data, err := os.ReadFile("../../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	environments := map[string]bool{"build": true, "plane": true, "extension": true, "computer": true}
	checked := 0
	for _, block := range regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$").FindAllStringSubmatch(string(data), -1) {
		name, marked := strings.CutPrefix(block[1], "sh test=")
		if !marked || !environments[name] {
			t.Errorf("the block %q has the mark %q, want sh test=ENVIRONMENT", block[2], block[1])
		}
		for _, line := range strings.Split(block[2], "\n") {
			words, isOurs := strings.CutPrefix(line, "capstan ")
			if !isOurs || words == "--version" {
				continue
			}
			checked++
			words = regexp.MustCompile(`\$\([^)]*\)`).ReplaceAllString(words, "v1.36.3")
			if err := accepts(strings.Fields(words)); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	if checked < 15 {
		t.Errorf("%d commands were checked: the pattern does not fit any more", checked)
	}
}

// accepts returns an error if the words are no valid command, without running it.
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
			t.Errorf("%s: %v", words, err)
		}
	}
}
