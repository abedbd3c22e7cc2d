package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/local/planebackup"
)

func (a *app) backupPlaneCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "plane", Short: "Backups of the management plane itself",
		Long: `Back up the management plane, and restore it on this computer or another one. The backup is one file with all
objects and all keys of the plane: whoever has it can act as the plane. Local hosts and their contents are not in it.
docs/backup.md lists what is in it, and explains how hosts find a plane that has moved.`,
	}
	cmd.AddCommand(a.backupPlaneCreateCommand(), a.backupPlaneRestoreCommand())
	return cmd
}

// planeBackup returns the options for a backup file.
func (a *app) planeBackup(path string) (planebackup.Options, error) {
	kubernetes, err := a.versionOrNewest("")
	if err != nil {
		return planebackup.Options{}, err
	}
	tool, err := a.backupTool()
	if err != nil {
		return planebackup.Options{}, err
	}
	path, err = filepath.Abs(path)
	return planebackup.Options{
		Home: a.home, Path: path, Tool: tool, Version: version, KubernetesVersion: kubernetes, Step: a.steps().Run,
		Note: func(text string) { fmt.Fprintln(a.err, text) },
	}, err
}

func (a *app) backupPlaneCreateCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "create FILE", Short: "Write a backup of the plane to a file that does not exist yet",
		Long: `Write a backup of the running plane to a file that only you can read; the plane keeps running. The snapshot in
it is verified by restoring it into another etcd. Keep the file as safe as the plane: it has all keys, unencrypted.`,
		Example: "  capstan backup plane create plane.tar",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			o, err := a.planeBackup(args[0])
			if err != nil {
				return err
			}
			m, err := planebackup.Create(ctx, o)
			if err != nil {
				return fmt.Errorf("backing up the plane: %w", err)
			}
			fmt.Fprintln(a.out, o.Path)
			fmt.Fprintf(a.err, "%d keys at revision %d.\n", m.Keys, m.Revision)
			a.next("capstan backup plane restore " + args[0] + "   # on a computer without this plane")
			return nil
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait")
	return cmd
}

func (a *app) backupPlaneRestoreCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Restore a plane from a backup into a home directory without a plane",
		Long: `Restore a plane from a backup into a home directory without a plane. This does not start the plane. The
original plane must not run any more, or hosts obey both planes. docs/backup.md explains how hosts find the restored
plane.`,
		Example: "  capstan backup plane restore plane.tar",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			o, err := a.planeBackup(args[0])
			if err != nil {
				return err
			}
			m, err := planebackup.Restore(ctx, o)
			if err != nil {
				return fmt.Errorf("restoring the plane: %w", err)
			}
			fmt.Fprintf(a.err, "The plane is as it was at %s. Later changes are lost.\n",
				m.Time.Local().Format(time.DateTime))
			if m.Listen == "" {
				a.next("capstan up")
				return nil
			}
			a.next(
				"capstan up --listen ADDRESS   # an address of this computer; hosts still connect to "+m.Listen,
				"capstan host token create --uses 20   # only if hosts can't resolve that name; run what it prints on hosts",
			)
			return nil
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait")
	return cmd
}
