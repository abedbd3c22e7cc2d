package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/image/client"
)

func (a *app) imagePullCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "pull NAME", Short: "Pull an image from its registry, for all hosts",
		Long: `Pulls an image with your credentials in ~/.docker/config.json, for every host. Hosts never see these
credentials; images that they pull themselves need pull secrets.

registries.yaml in the home directory names mirrors (docs/images.md). The proxy is the HTTPS_PROXY of the shell that ran
"capstan up"; without a dock, that of the current shell.`,
		Example: "  capstan image pull registry.example.com/team/web:1",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.add(cmd.Context(), format, "pulling "+args[0],
				func(ctx context.Context, c *client.Client, say func(string)) ([]image.Image, error) {
					return c.Pull(ctx, args[0], say)
				})
		},
	}
	outputFlag(cmd, &format)
	return cmd
}
