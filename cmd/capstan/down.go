package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/dock/rootfs"
)

func (a *app) downCommand() *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use: "down", Short: "End the management plane and all local hosts; keep their data unless --delete", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Minute)
			defer cancel()
			if _, err := os.Stat(string(a.home)); errors.Is(err, os.ErrNotExist) {
				fmt.Fprintf(a.err, "Nothing runs: %s does not exist.\n", a.home)
				return nil
			}
			unlock, err := a.lock(ctx)
			if err != nil {
				return err
			}
			defer unlock()
			p := a.steps()
			if err := p.Run("plane and hosts ended", func(func(string)) error { return a.endDock(ctx) }); err != nil {
				return err
			}
			if !remove {
				a.next("capstan up              start it again: nothing is lost", "capstan down --delete   remove everything")
				return nil
			}
			return p.Run("removed "+string(a.home), func(func(string)) error { return a.removeHome() })
		},
	}
	cmd.Flags().BoolVar(&remove, "delete", false, "remove everything, also the data of all clusters")
	return cmd
}

// endDock stops the plane first, so that it does not see its hosts vanish, then all the rest.
func (a *app) endDock(ctx context.Context) error {
	client := a.dock()
	defer client.Close()
	err := client.StopUnit(ctx, planeUnit)
	if err == nil {
		err = client.Shutdown(ctx)
	}
	if errors.Is(err, dock.ErrNotRunning) {
		return nil
	}
	return err
}

// removeHome removes the home directory. It refuses one that is not Capstan's, so that a wrong --home costs nothing.
func (a *app) removeHome() error {
	dir := string(a.home)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("removing %s: %w", dir, err)
	}
	known := map[string]bool{"kubeconfig": true, "lock": true, "dock": true, "plane": true, "clusters": true, "backups": true, "up.json": true}
	for _, e := range entries {
		if !known[e.Name()] && !strings.HasPrefix(e.Name(), newPrefix) {
			return hint("remove it by hand if nothing in it is needed", "%s holds %q, which is not Capstan's: nothing was removed", dir, e.Name())
		}
	}
	return rootfs.Remove(dir) // hosts have folders that deny their owner access
}
