package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/extension/backup"
	"github.com/capstan-dev/capstan/extension/backup/restore"
)

func (a *app) backupRestoreCommand() *cobra.Command {
	var place backupPlace
	var timeout time.Duration
	var yes bool
	cmd := &cobra.Command{
		Use:   "restore CLUSTER [BACKUP]",
		Short: "Restore a backup (by default the newest) into a cluster on local hosts",
		Long: `Restore a backup into a running cluster on local hosts. Changes since the backup are lost, and the API server
is unavailable for a while. One control plane host gets the data, and keeps its old data in another directory. The
other control plane machines are deleted, and their owner replaces them. docs/backup.md explains how to restore on owned
hosts.`,
		Example:           "  capstan backup restore demo --yes",
		ValidArgsFunction: a.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			store, err := a.backupStore(place)
			if err != nil {
				return err
			}
			r, err := a.prepareRestore(ctx, store, args)
			if err != nil {
				return err
			}
			if !yes {
				return hint("to restore it, add --yes",
					"cluster %s would return to backup %s (%s): all later changes would be lost",
					args[0], r.Manifest.Name, r.Manifest.Time.Local().Format(time.DateTime))
			}
			return a.restore(ctx, args[0], r)
		},
	}
	place.flag(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait")
	cmd.Flags().BoolVar(&yes, "yes", false, "restore, and lose all later changes")
	return cmd
}

// prepareRestore prepares restoring a cluster on local hosts; args are the name of the cluster and, optionally, the
// name of a backup.
func (a *app) prepareRestore(ctx context.Context, store backup.Store, args []string) (*restore.Restore, error) {
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	cluster, err := a.cluster(ctx, c, args[0])
	if err != nil {
		return nil, err
	}
	tool, err := a.backupTool()
	if err != nil {
		return nil, err
	}
	o := restore.Options{
		Plane: c, Cluster: cluster, Store: store,
		Access: func(ctx context.Context) (*backup.Access, error) { return a.backupAccess(ctx, cluster.Name) },
		Hosts:  restore.Directories{Root: a.home.HostRoot, Tool: tool},
		Step:   a.steps().Run,
		Note:   func(text string) { fmt.Fprintln(a.err, text) },
	}
	if len(args) == 2 {
		o.Backup = args[1]
	}
	return restore.Prepare(ctx, o)
}

// restore restores the data, then the rest of the control plane, and prints the remaining steps.
func (a *app) restore(ctx context.Context, cluster string, r *restore.Restore) error {
	kept, err := r.Data(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.err, "Cluster %s is as it was at %s. Host %s keeps the old data in %s.\n",
		cluster, r.Manifest.Time.Local().Format(time.DateTime), r.Plan.First().Name, kept)
	err = r.ReplaceOthers(ctx)
	orphans, orphansErr := r.Orphans(ctx)
	if orphansErr == nil {
		next := []string{"capstan kubectl --cluster " + cluster + " get nodes"}
		for _, m := range orphans {
			next = append(next, "capstan kubectl delete machine "+m+
				"   # younger than the backup: the cluster does not know its Node")
		}
		a.next(next...)
	}
	return errors.Join(err, orphansErr)
}
