package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/openapi"
)

func (a *app) hookOpenAPICommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "openapi", Short: "Print the OpenAPI v3 document of the hooks, for extensions in any language",
		RunE: func(*cobra.Command, []string) error {
			document, err := openapi.JSON(hook.ClusterAPI(), openapi.Options{Title: "Cluster API runtime hooks"})
			if err != nil {
				return err
			}
			switch format {
			case "json":
			case "yaml":
				if document, err = yaml.JSONToYAML(document); err != nil {
					return fmt.Errorf("encoding as YAML: %w", err)
				}
			default:
				return hint("use -o json or -o yaml", "unknown output format %q", format)
			}
			_, err = a.out.Write(document)
			return err
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "yaml", "output format: json or yaml")
	return cmd
}
