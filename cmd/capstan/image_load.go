package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/image/client"
)

func (a *app) imageLoadCommand() *cobra.Command {
	var format, name string
	cmd := &cobra.Command{
		Use: "load FILE", Short: "Load images from an archive or a directory",
		Long: `Loads the images of FILE into the store: an archive that "docker save" or "podman save" wrote, or an OCI image
layout as an archive or a directory. Archives may be compressed with gzip or zstd; - reads one from the standard input.
An image for several platforms is loaded for this machine's platform.

If another image has the name, it loses the name, and stays on the disk as long as a host holds it.`,
		Example: `  capstan image load web.tar
  docker save web:1 | capstan image load -
  capstan image load ./layout --name web:1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			from := io.NopCloser(a.in)
			if args[0] != "-" {
				var err error
				if from, err = client.Open(args[0]); err != nil {
					return err
				}
			}
			defer from.Close()
			return a.add(cmd.Context(), format, "loading "+args[0],
				func(ctx context.Context, c *client.Client, say func(string)) ([]image.Image, error) {
					return c.Load(ctx, from, name, say)
				})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the image, NAME:TAG, if the archive has none")
	outputFlag(cmd, &format)
	return cmd
}

// add adds images and prints them.
func (a *app) add(ctx context.Context, format, what string,
	do func(context.Context, *client.Client, func(string)) ([]image.Image, error),
) error {
	c, err := a.images(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var added []image.Image
	err = a.slowly(what, func(say func(string)) (err error) {
		added, err = do(ctx, c, say)
		return err
	})
	if err != nil {
		return err
	}
	if err := a.print(format, added, func() error { return a.imageTable(added) }); err != nil || format != "table" {
		return err
	}
	if len(added) > 0 && len(added[0].Names) > 0 {
		a.next("capstan image list", "capstan kubectl --cluster demo create deployment web --image "+
			image.Short(added[0].Names[0]))
	}
	return nil
}

// isTerminal reports whether out is a terminal, to which binary data must not go.
func isTerminal(out io.Writer) bool {
	f, is := out.(*os.File)
	if !is {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
