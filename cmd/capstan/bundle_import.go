package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/local"
	"github.com/capstan-dev/capstan/local/nodebundle"
)

func (a *app) bundleImportCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Verify a bundle and hand it to the plane",
		Long: `Verifies a bundle (FILE, or - for the standard input) and stores it where the plane serves it to hosts that
become nodes of its version. It replaces a bundle of the same version and architecture.

A bundle contains its own digests: whoever can change the bundle's files can change the digests, too. Get bundles only
from sources whose programs you would run as root.`,
		Example: `  capstan bundle import v1.36.3.tar.gz`,
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := local.NodeBundles(a.place(), true)
			if err != nil {
				return err
			}
			from := io.NopCloser(a.in)
			if args[0] != "-" {
				if from, err = os.Open(args[0]); err != nil {
					return err
				}
			}
			defer from.Close()
			var b *nodebundle.Bundle
			err = a.slowly("verifying "+args[0], func(func(string)) (err error) {
				b, err = s.Import(from)
				return err
			})
			if err != nil {
				return err
			}
			err = a.print(format, b, func() error { return a.bundleTable([]nodebundle.Bundle{*b}) })
			if err == nil && format == "table" {
				a.next("capstan host token create --uses 3")
			}
			return err
		},
	}
	outputFlag(cmd, &format)
	return cmd
}
