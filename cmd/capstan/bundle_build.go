package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/bundlefile"
	"github.com/capstan-dev/capstan/local/nodebundle"
)

func (a *app) bundleBuildCommand() *cobra.Command {
	var out, net string
	cmd := &cobra.Command{
		Use: "build DIRECTORY -o FILE", Short: "Pack what kube/stock has built into a bundle",
		Long: `Packs DIRECTORY, where kube/stock has built the programs and images of a Kubernetes version, into one archive.
It adds a manifest with the digests of all files, and the image of the program that connects pods. All programs must be
for the architecture that kube/stock was asked for.`,
		Example: `  capstan bundle build stock -o v1.36.3.tar.gz   # stock is made by: kube/stock v1.36.3 stock`,
		RunE: func(_ *cobra.Command, args []string) error {
			if out == "" {
				return hint("name it: -o v1.36.3.tar.gz", "-o is missing: the bundle needs a file name")
			}
			if net == "" {
				arch, err := nodebundle.Architecture(args[0])
				if err != nil {
					return err
				}
				if net, err = a.netProgram(arch); err != nil {
					return err
				}
			}
			var m *bundlefile.Manifest
			err := a.slowly("building "+out, func(say func(string)) (err error) {
				m, err = nodebundle.Build(args[0], net, out, say)
				return err
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(a.out, "%s has Kubernetes %s for linux/%s: %d files, %d images, %s unpacked\n",
				out, m.Kubernetes, m.Architecture, len(m.Files), len(m.Images), size(m.Size()))
			a.next("capstan bundle import " + out)
			return nil
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "`file` to write (required)")
	cmd.Flags().StringVar(&net, "net", "", "`program` that connects pods (default: capstan-net next to this program, or "+
		"capstan-net-linux-ARCH for another architecture)")
	return cmd
}
