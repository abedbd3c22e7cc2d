package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/image"
)

func (a *app) imageListCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the images of the store",
		Long: `Lists the images of the store. Images with a name are on every host; those without one were pulled by hosts,
and only these hosts see them. HOSTS is the number of hosts that hold an image. SIZE is that of its unpacked layers;
layers that images share count for each.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.images(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			all, err := c.List(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(format, all, func() error { return a.imageTable(all) })
		},
	}
	outputFlag(cmd, &format)
	return cmd
}

// imageTable prints one line for each name of an image.
func (a *app) imageTable(all []image.Image) error {
	cells := [][]string{}
	for _, img := range all {
		names := img.Names
		if len(names) == 0 {
			names = []string{""}
		}
		for _, name := range names {
			cells = append(cells, []string{dash(image.Short(name)), shortDigest(img.ID), size(img.Size), img.Platform,
				strconv.Itoa(img.Hosts), age(metav1.NewTime(img.Created))})
		}
	}
	return a.table([]string{"NAME", "ID", "SIZE", "PLATFORM", "HOSTS", "CREATED"}, cells)
}

// shortDigest returns the beginning of a digest, enough to tell images apart.
func shortDigest(digest string) string {
	hex := strings.TrimPrefix(digest, "sha256:")
	return hex[:min(len(hex), 12)]
}

// size formats a number of bytes for people.
func size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%dB", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1fKiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1fMiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1fGiB", float64(n)/(1<<30))
}
