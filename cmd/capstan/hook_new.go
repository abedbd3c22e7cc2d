package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/runtime/scaffold"
)

func (a *app) hookNewCommand() *cobra.Command {
	var options scaffold.Options
	cmd := &cobra.Command{
		Use:     "new DIRECTORY",
		Short:   "Create a project for an extension that builds, passes its own tests, and can be deployed",
		Example: `  capstan hook new quota --module example.org/quota`,
		RunE: func(_ *cobra.Command, args []string) error {
			if options.SDKVersion == "" && options.SDKDirectory == "" {
				options.SDKVersion = scaffold.SDKVersion()
				if options.SDKVersion == "" {
					return hint("give --sdk-version, or --sdk with its directory",
						"the version of the Runtime SDK in this binary is unknown")
				}
			}
			written, err := scaffold.Write(args[0], options)
			if err != nil {
				return err
			}
			for _, name := range written {
				fmt.Fprintln(a.out, name)
			}
			a.next("cd "+args[0], "go mod tidy", "go test ./...")
			return nil
		},
	}
	cmd.Flags().StringVar(&options.Module, "module", "", "path of the Go module, such as example.org/quota")
	cmd.Flags().StringVar(&options.Name, "name", "",
		"name of the extension, a DNS label (default: the last part of the module's path)")
	cmd.Flags().StringVar(&options.SDKVersion, "sdk-version", "",
		"version of the Runtime SDK (default: that of this binary)")
	cmd.Flags().StringVar(&options.SDKDirectory, "sdk", "",
		"directory with the Runtime SDK, to use it in place of a published version")
	_ = cmd.MarkFlagRequired("module")
	return cmd
}
