package main

import (
	"context"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/image/build"
	"github.com/capstan-dev/capstan/image/client"
)

func (a *app) imageBuildCommand() *cobra.Command {
	var format string
	o := build.Options{}
	cmd := &cobra.Command{
		Use: "build NAME:TAG PATH", Short: "Make an image of a static program or a directory",
		Long: `Makes an image of PATH and puts it into the store, without an engine. A static program becomes the entry point
and runs as user 65532, with a directory for temporary files and nothing else beside it. A directory becomes the
image's root, and runs what --entrypoint says, as root unless --user says otherwise.

Files belong to root and have the modes 0755 or 0644; all is as old as SOURCE_DATE_EPOCH says, else 1970. So the same
input has the same digest everywhere.`,
		Example: `  capstan image build web:1 ./web   # after: CGO_ENABLED=0 go build -o web .
  capstan image build site:1 ./root --entrypoint /bin/httpd --user 1000`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Name, o.Path = args[0], args[1]
			if text := os.Getenv("SOURCE_DATE_EPOCH"); text != "" {
				seconds, err := strconv.ParseInt(text, 10, 64)
				if err != nil || seconds < 0 {
					return hint("set it to seconds since 1970, or not at all", "SOURCE_DATE_EPOCH is %q", text)
				}
				o.Epoch = time.Unix(seconds, 0)
			}
			return a.add(cmd.Context(), format, "building "+o.Name,
				func(ctx context.Context, c *client.Client, say func(string)) ([]image.Image, error) {
					r, w := io.Pipe()
					failed := make(chan error, 1)
					go func() {
						err := build.Build(o, w)
						failed <- err
						w.CloseWithError(err)
					}()
					added, err := c.Load(ctx, r, "", say)
					r.Close()
					if cause := <-failed; err != nil && cause != nil && cause != io.ErrClosedPipe {
						return nil, cause
					}
					return added, err
				})
		},
	}
	cmd.Flags().StringArrayVar(&o.Entrypoint, "entrypoint", nil, "word of what containers run; repeat it for each word")
	cmd.Flags().StringArrayVar(&o.Command, "cmd", nil,
		"word of the arguments that a container can replace; repeat it for each")
	cmd.Flags().StringVar(&o.User, "user", "", "user that containers run as: NAME, UID or UID:GID")
	cmd.Flags().StringArrayVar(&o.Env, "env", nil, "variable of the environment, NAME=VALUE; may be repeated")
	cmd.Flags().StringVar(&o.Dir, "workdir", "", "working directory (default /)")
	outputFlag(cmd, &format)
	return cmd
}
