package main

import (
	"context"
	"fmt"
	"os"

	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"

	"github.com/capstan-dev/capstan/clusterctl"
)

// directory is where clusterctl's move saves objects to, or restores them from, in place of another management cluster.
type directory struct{ to, from string }

func (d directory) given() bool { return d.to != "" || d.from != "" }

// moveByDirectory saves the clusters of the namespace, with credentials, or restores what was saved. Nothing is deleted, and agents are not told of anything.
func (a *app) moveByDirectory(ctx context.Context, c *clusterctl.Client, d directory, target upstream.Kubeconfig) error {
	path := d.to + d.from
	if info, err := os.Stat(path); err != nil {
		return fmt.Errorf("looking for the directory: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", path)
	}
	if target.Path == "" {
		target = c.Kubeconfig
	}
	if d.to != "" {
		if err := c.MaySave(ctx, a.namespace); err != nil {
			return err
		}
	}
	err := c.Move(ctx, upstream.MoveOptions{FromKubeconfig: c.Kubeconfig, ToKubeconfig: target, Namespace: a.namespace, ToDirectory: d.to, FromDirectory: d.from})
	switch {
	case err != nil && d.to != "":
		return hint("clusters and their classes may be paused now: the same command names what resumes them (docs/clusterctl.md)", "saving the clusters of namespace %s: %w", a.namespace, err)
	case err != nil:
		return fmt.Errorf("restoring clusters from %s: %w", path, err)
	case d.to != "":
		fmt.Fprintf(a.err, "Saved to %s; the files have credentials of the clusters in them.\n", path)
	}
	return nil
}
