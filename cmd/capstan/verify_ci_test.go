package main

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestVerifyInContinuousIntegration: the files for continuous integration call the command with existing flags.
func TestVerifyInContinuousIntegration(t *testing.T) {
	cmd := (&app{out: io.Discard, err: io.Discard}).verifyCommand()
	flag := regexp.MustCompile(`--([a-z]+)`)
	for file, want := range map[string]string{
		"../../action.yml":             `verify -o sarif "${flags[@]}" "${paths[@]}"`,
		"../../.pre-commit-hooks.yaml": "entry: capstan verify",
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var content any
		if err := yaml.UnmarshalStrict(text, &content); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s does not call %q", file, want)
		}
		for _, match := range flag.FindAllStringSubmatch(string(text), -1) {
			if cmd.Flags().Lookup(match[1]) == nil {
				t.Errorf("%s uses the flag --%s, which the command does not have", file, match[1])
			}
		}
	}
}
