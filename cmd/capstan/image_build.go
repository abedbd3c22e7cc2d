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
		Use: "build NAME:TAG PATH", Short: "Build an image from a static program or a directory",
		Long: `Builds an image from PATH and puts it into the store, without a container engine. A static program becomes the
entry point and runs as user 65532, with only a directory for temporary files next to it. A directory becomes the
image's root and runs --entrypoint, as root unless --user names another user.

Files belong to root and have the modes 0755 or 0644; all times are SOURCE_DATE_EPOCH, or 1970 without it. So equal
input has equal digests everywhere.`,
		Example: `  capstan image build web:1 ./web   # after: CGO_ENABLED=0 go build -o web .
  capstan image build site:1 ./root --entrypoint /bin/httpd --user 1000`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Name, o.Path = args[0], args[1]
			if text := os.Getenv("SOURCE_DATE_EPOCH"); text != "" {
				seconds, err := strconv.ParseInt(text, 10, 64)
				if err != nil || seconds < 0 {
					return hint("set it to seconds since 1970, or unset it", "SOURCE_DATE_EPOCH is %q", text)
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
	cmd.Flags().StringArrayVar(&o.Entrypoint, "entrypoint", nil,
		"one word of the command that containers run; repeat the flag for each word")
	cmd.Flags().StringArrayVar(&o.Command, "cmd", nil,
		"one of the default arguments, which a container can replace; repeat the flag for each")
	cmd.Flags().StringVar(&o.User, "user", "", "user of containers: NAME, UID or UID:GID")
	cmd.Flags().StringArrayVar(&o.Env, "env", nil, "environment variable, NAME=VALUE; may be repeated")
	cmd.Flags().StringVar(&o.Dir, "workdir", "", "working directory (default /)")
	outputFlag(cmd, &format)
	return cmd
}
