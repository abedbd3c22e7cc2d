package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) imageRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME...", Aliases: []string{"rm"}, Short: "Remove names of images, and images that nothing uses",
		Long: `Removes names. An image without a name that no host holds is deleted from the disk, with the layers that no
other image has. An image that a host has used stays until its kubelet removes it, or the host is deleted.`,
		Example:           "  capstan image remove web:1",
		ValidArgsFunction: a.completeImages(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.images(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			for _, name := range args {
				if err := c.Remove(cmd.Context(), name); err != nil {
					return err
				}
				fmt.Fprintf(a.err, "Image %s is removed.\n", name)
			}
			return nil
		},
	}
}
