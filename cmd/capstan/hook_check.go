package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/contract/report"
	"github.com/capstan-dev/capstan/runtime/conformance"
)

func (a *app) hookTestCommand() *cobra.Command {
	var server hookServer
	var format string
	var strict bool
	var settings map[string]string
	var only []string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "test URL", Short: "Check an extension in any language against the contract",
		Long: `Check a running extension: its discovery is valid; its handlers answer in time, answer equal requests equally,
and serve many calls at once; and they refuse requests that are malformed, too large, or of another version. The URL is
the one that an ExtensionConfig would have.

The calls are real, and so are their side effects. They name a Cluster "sample" in namespace "default".

The exit code is 0 if all checks passed, 1 if one failed, and 2 if something could not be checked; with --strict,
warnings count as failures. The report ends with the checks that did not finish within --timeout. It has the format of
capstan verify: a failure has level MUST, a warning SHOULD.`,
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
			return a.testExtension(cmd.Context(), conformance.Target{
				URL: server.url, CA: ca, Certificate: own, Settings: settings, Only: only, Timeout: timeout,
			}, format, strict)
		},
	}
	server.flags(cmd)
	reportFlag(cmd, &format)
	names := make([]string, 0, len(conformance.Checks()))
	for _, c := range conformance.Checks() {
		names = append(names, c.Name)
	}
	cmd.Flags().StringSliceVar(&only, "only", nil, "run only these checks: "+strings.Join(names, ", "))
	cmd.Flags().BoolVar(&strict, "strict", false, "treat warnings as failures")
	cmd.Flags().DurationVar(&timeout, "timeout", conformance.DefaultTimeout, "time limit for all checks together")
	cmd.Flags().StringToStringVar(&settings, "setting", nil, "settings to send with every request, key=value")
	return judging(cmd)
}

// testExtension runs the checks and prints the report, even if the user interrupts the checks.
func (a *app) testExtension(ctx context.Context, target conformance.Target, format string, strict bool) error {
	if err := report.Format(format).Valid(); err != nil {
		return err
	}
	url := strings.TrimSuffix(target.URL, "/")
	if target.Timeout <= 0 {
		return hint("leave it out for the default", "--timeout must be positive")
	}
	found, err := conformance.Run(ctx, target)
	if found == nil {
		return err
	}
	judged := testReport(found)
	if err := errors.Join(a.writeReport(format, judged), err); err != nil {
		return err
	}
	if found.OK(strict) {
		fmt.Fprintf(a.err, "The extension at %s conforms: %d checks, %d warnings\n", url, judged.Checks,
			found.Count(conformance.Warned))
		return nil
	}
	failed := fmt.Errorf("the extension at %s does not conform: %d checks failed, %d warnings, in %s", url,
		found.Count(conformance.Failed), found.Count(conformance.Warned), found.Took.Round(time.Millisecond))
	switch {
	case found.Left != nil:
		return hint("repair what failed; raise --timeout for more time, or use --only for fewer checks",
			"%w; not everything was checked: %s", failed, found.Left)
	case len(judged.Failures) > 0:
		return hint("report it to Capstan, with the text above", "%w; %d checks crashed", failed,
			len(judged.Failures))
	}
	return findings{hint("fix the extension (each check names the rules that it covers), and run the command again",
		"%w", failed)}
}
