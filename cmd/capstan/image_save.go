package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

func (a *app) imageSaveCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "save NAME...", Short: "Write images into an archive",
		Long: `Writes images into an archive: an OCI image layout that "docker load" reads, too. The same images give the same
bytes. Without -o it goes to the standard output.`,
		Example: `  capstan image save web:1 -o web.tar
  capstan image save web:1 db:2 | ssh other capstan image load -`,
		ValidArgsFunction: a.completeImages(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" && isTerminal(a.raw) {
				return hint("name a file: -o FILE", "refusing to write an archive to a terminal")
			}
			c, err := a.images(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			return a.slowly("saving", func(func(string)) error {
				if file == "" {
					return c.Save(cmd.Context(), a.raw, args)
				}
				return saveFile(file, func(to io.Writer) error { return c.Save(cmd.Context(), to, args) })
			})
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "file to write the archive to")
	return cmd
}

// saveFile writes a file completely or not at all.
func saveFile(file string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return os.Rename(f.Name(), file)
}
