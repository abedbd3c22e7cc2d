package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/image/client"
	"github.com/capstan-dev/capstan/local"
)

func (a *app) imageCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "image", Aliases: []string{"images"},
		Short: "Manage the images of all local hosts: load, build, pull, save, list, remove",
		Long: `Works with the image store that all local hosts share. A named image in the store is on every host at once:
pods with it start offline, without a registry.

The plane need not be running.`,
		Example: `  capstan image build web:1 ./web             # a static program
  capstan image load web.tar                  # an archive that docker save wrote
  capstan image list`,
	}
	cmd.AddCommand(a.imageLoadCommand(), a.imageSaveCommand(), a.imageListCommand(), a.imageRemoveCommand(),
		a.imageBuildCommand(), a.imagePullCommand())
	return cmd
}

// images connects to the image store.
func (a *app) images(ctx context.Context) (*client.Client, error) {
	return local.Images(ctx, a.place())
}

// progressAfter is how long an operation may take before its progress is shown.
const progressAfter = 2 * time.Second

// slowly runs an operation. If the operation takes long, slowly shows a step, with the details that the operation
// reports by calling say.
func (a *app) slowly(name string, do func(say func(string)) error) error {
	said := make(chan string)
	done := make(chan error)
	go func() {
		done <- do(func(text string) { said <- text })
	}()
	timer := time.NewTimer(progressAfter)
	defer timer.Stop()
	steps := a.steps()
	shown, last := false, ""
	for {
		select {
		case text := <-said:
			if last = text; shown {
				steps.Detail(last)
			}
		case <-timer.C:
			shown = true
			steps.Start(name)
			steps.Detail(last)
		case err := <-done:
			if shown && err != nil {
				steps.Fail()
			} else if shown {
				steps.Done()
			}
			return err
		}
	}
}

// completeImages completes names of images.
func (a *app) completeImages(repeated bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !repeated || cmd.Root().PersistentPreRunE(cmd, args) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionLimit)
		defer cancel()
		c, err := a.images(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer c.Close()
		all, err := c.List(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []string
		for _, img := range all {
			for _, name := range img.Names {
				names = append(names, image.Short(name))
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
