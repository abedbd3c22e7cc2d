package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/runtime/conformance"
)

func (a *app) hookTestCommand() *cobra.Command {
	var server hookServer
	var format string
	var strict bool
	var settings map[string]string
	var only []string
	cmd := &cobra.Command{
		Use: "test URL", Short: "Check an extension, written in whatever language, against the contract",
		Long: `Check a running extension: that discovery is valid, that handlers answer in time, the same for the same, and to many calls at once, and that they refuse
what is malformed, too large, or of another version. The URL is the one that an ExtensionConfig would have.

The handlers are really called, for a Cluster "sample" in namespace "default": what they do outside of their answer, they do.

The exit code is 0 if no check failed; with --strict warnings count too.`,
		Example: `  capstan hook test https://127.0.0.1:9443 --ca-file ca.crt
  capstan hook test https://127.0.0.1:9443 --ca-file ca.crt -o junit > report.xml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			server.url = args[0]
			ca, err := server.ca()
			if err != nil {
				return err
			}
			own, err := server.certificate()
			if err != nil {
				return err
			}
			report, err := conformance.Run(cmd.Context(), conformance.Target{URL: server.url, CA: ca, Certificate: own, Settings: settings, Only: only})
			if err != nil {
				return err
			}
			switch format {
			case "text":
				err = report.WriteText(a.out)
			case "json":
				err = report.WriteJSON(a.out)
			case "junit":
				err = report.WriteJUnit(a.out)
			default:
				return hint("use -o text, -o json or -o junit", "unknown output format %q", format)
			}
			if err != nil {
				return err
			}
			if !report.OK(strict) {
				return hint("each check names its rules; run it again when they hold", "the extension at %s does not conform: %d checks failed, %d warned, in %s",
					strings.TrimSuffix(server.url, "/"), report.Count(conformance.Failed), report.Count(conformance.Warned), report.Took.Round(time.Millisecond))
			}
			return nil
		},
	}
	server.flags(cmd)
	cmd.Flags().StringVarP(&format, "output", "o", "text", "output format: text, json or junit")
	names := make([]string, 0, len(conformance.Checks()))
	for _, c := range conformance.Checks() {
		names = append(names, c.Name)
	}
	cmd.Flags().StringSliceVar(&only, "only", nil, "make these checks only: "+strings.Join(names, ", "))
	cmd.Flags().BoolVar(&strict, "strict", false, "warnings fail, too")
	cmd.Flags().StringToStringVar(&settings, "setting", nil, "settings that go into every request, key=value")
	return cmd
}
