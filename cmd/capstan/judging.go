package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// judges is the annotation of commands with the exit codes of capstan verify.
const judges = "capstan.dev/judges"

// findings is the error, with exit code 1, of a command that judged everything and found something.
type findings struct{ error }

// Unwrap returns the cause.
func (e findings) Unwrap() error { return e.error }

// judging gives a command the exit codes of capstan verify: 0 without findings, 1 with findings, and 2 if something
// could not be judged.
func judging(cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{judges: ""}
	return cmd
}

// exitCode returns the exit code for a command's error. Wrong flags or arguments of a command that judges count as 2,
// because it could not judge. Pure.
func exitCode(cmd *cobra.Command, err error) int {
	_, isJudge := cmd.Annotations[judges]
	switch {
	case err == nil:
		return 0
	case isJudge && !errors.As(err, new(findings)):
		return 2
	}
	return 1
}
