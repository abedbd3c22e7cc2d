package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// couldNotRun is an error with exit code 2: nothing was judged, or not all.
type couldNotRun struct{ error }

// Unwrap returns the cause.
func (e couldNotRun) Unwrap() error { return e.error }

// findings is an error with exit code 1: all was judged, and something was found.
type findings struct{ error }

// Unwrap returns the cause.
func (e findings) Unwrap() error { return e.error }

// judging gives a command the exit codes of capstan verify: 0 without findings, 1 with findings, and 2 if something
// could not be judged. Errors of the command are of the last kind, unless they are findings.
func judging(cmd *cobra.Command) *cobra.Command {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if err == nil || errors.As(err, new(findings)) {
			return err
		}
		return couldNotRun{err}
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return couldNotRun{err} })
	return cmd
}
