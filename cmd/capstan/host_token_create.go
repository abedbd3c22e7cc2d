package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/local"
	"github.com/capstan-dev/capstan/local/credential"
)

// tokenFormats are the formats in which a credential can be printed.
var tokenFormats = []string{"line", "file", "cloud-init", "json", "yaml"}

func (a *app) hostTokenCreateCommand() *cobra.Command {
	var l credential.Limits
	var life time.Duration
	var format string
	cmd := &cobra.Command{
		Use: "create", Aliases: []string{"new"},
		Short: "Create an enrolment credential, and a line that makes a computer a host",
		Long: `Creates an enrolment credential and prints one line to paste into a shell on a computer. The line fetches the
agent from the plane, verifies it by a hash, installs it as a systemd service, and enrolls the computer. The plane must
be reachable: capstan up --listen ADDRESS.

The credential sets the host's zone and labels; the host can't choose them. The credential is printed once, and stored
as a hash. By default it works for an hour and one host: --expires and --uses change that.

-o file prints a file for "capstan-agent enroll --from FILE", -o cloud-init prints user data for a computer that
cloud-init installs.`,
		Example: `  capstan host token create --name rack1-07 --zone rack1
  capstan host token create --name 'rack1-*' --zone rack1 --uses 20 --label disk=ssd
  (umask 077; capstan host token create -o file > rack1-07.yaml)`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			show, err := a.tokenPrinter(format)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			l.Namespace = a.namespace
			made, err := local.Admit(cmd.Context(), a.place(), c, l, life)
			if err != nil {
				return err
			}
			if err := show(made); err != nil {
				return err
			}
			a.next("capstan host token list", "capstan host token revoke "+made.ID, "capstan host list")
			return nil
		},
	}
	cmd.Flags().DurationVar(&life, "expires", time.Hour, "how long the credential works")
	cmd.Flags().IntVar(&l.Uses, "uses", 1, "how many hosts it can enroll; a host that uses it again counts once")
	cmd.Flags().StringVar(&l.Name, "name", "",
		"name of the host, or a pattern such as 'rack1-*' (default: any; the host uses the computer's name)")
	cmd.Flags().StringVar(&l.Zone, "zone", "",
		"failure domain of the host, which can't be changed later (default: that of the host if it is registered already, "+
			"else "+credential.DefaultZone+")")
	cmd.Flags().StringToStringVar(&l.Labels, "label", nil, "label to set on the host, as KEY=VALUE")
	cmd.Flags().BoolVar(&l.Reenroll, "reenroll", false,
		"allow a registered computer that was reinstalled to be the same host again, unless a machine is on it")
	cmd.Flags().StringVarP(&format, "output", "o", "line", "output format: line, file, cloud-init, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc(
		"output",
		func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return tokenFormats, cobra.ShellCompDirectiveNoFileComp
		},
	)
	return cmd
}

// tokenPrinter returns a function that prints a credential in a format. It is called first, so that no credential is
// created that can't be printed.
func (a *app) tokenPrinter(format string) (func(local.Admission) error, error) {
	write := func(data []byte, err error) error {
		if err == nil {
			_, err = a.out.Write(data)
		}
		return err
	}
	switch format {
	case "line":
		return func(m local.Admission) error {
			fmt.Fprintf(a.err, "Paste this line into a shell on the computer within %s. It contains a credential.\n\n",
				time.Until(m.Expires).Round(time.Minute))
			fmt.Fprintln(a.out, m.Line(m.Text))
			return nil
		}, nil
	case "file":
		return func(m local.Admission) error { return write(m.File(m.Text, m.OnlyName())) }, nil
	case "cloud-init":
		return func(m local.Admission) error { return write(m.CloudInit(m.Text)) }, nil
	case "json", "yaml":
		return func(m local.Admission) error { return a.print(format, m, nil) }, nil
	}
	return nil, hint("use -o line, -o file, -o cloud-init, -o json or -o yaml", "unknown output format %q", format)
}
