package clusterctl

import (
	"context"
	"errors"
	"fmt"
	"os"

	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"

	"github.com/capstan-dev/capstan/internal/hint"
)

// pausedAdvice is the advice when an operation on all clusters of a namespace failed half way.
const pausedAdvice = "clusters and their classes may be paused now"

// MoveClusters hands over the agents of a namespace's hosts, then moves the clusters. A dry run needs no target and
// reports what would move.
func (c *Client) MoveClusters(ctx context.Context, h HandOver, dryRun bool) error {
	if dryRun {
		if err := c.MayMove(ctx, h.Namespace, h.To); err != nil {
			return err
		}
	} else if err := c.PrepareMove(ctx, h); err != nil {
		return err
	}
	err := c.Move(ctx, upstream.MoveOptions{
		FromKubeconfig: c.Kubeconfig, ToKubeconfig: h.To, Namespace: h.Namespace, DryRun: dryRun,
	})
	switch {
	case errors.Is(err, ErrClassGone):
		return hint.Errorf("run: capstan down, then capstan up", "%w", err)
	case err != nil:
		return hint.Errorf(pausedAdvice+", in the source or in the target: run this command again to see the commands "+
			"that resume them in the source; docs/clusterctl.md says how to continue",
			"moving the clusters of namespace %s: %w", h.Namespace, err)
	}
	return nil
}

// PrepareMove hands over the agents of a namespace's hosts, so that any program can then move the clusters.
func (c *Client) PrepareMove(ctx context.Context, h HandOver) error {
	if err := c.MayMove(ctx, h.Namespace, h.To); err != nil {
		return err
	}
	if err := c.HandOver(ctx, h); err != nil {
		return hint.Errorf("nothing has moved; call the offers off with: "+c.CallOffCommand(h),
			"handing agents over: %w", err)
	}
	return nil
}

// SaveClusters saves the clusters of a namespace, with their credentials, to a directory. The clusters stay where they
// are, and agents get no offer.
func (c *Client) SaveClusters(ctx context.Context, namespace, directory string) error {
	if err := isDirectory(directory); err != nil {
		return err
	}
	if err := c.MaySave(ctx, namespace); err != nil {
		return err
	}
	err := c.Move(ctx, upstream.MoveOptions{
		FromKubeconfig: c.Kubeconfig, ToKubeconfig: c.Kubeconfig, Namespace: namespace, ToDirectory: directory,
	})
	if err != nil {
		return hint.Errorf(pausedAdvice+": run this command again to see the commands that resume them "+
			"(docs/clusterctl.md)", "saving the clusters of namespace %s: %w", namespace, err)
	}
	return nil
}

// RestoreClusters restores the clusters that SaveClusters saved to a directory. The parameter to is the management
// cluster that gets them. If to is empty, this management cluster gets them.
func (c *Client) RestoreClusters(ctx context.Context, namespace, directory string, to upstream.Kubeconfig) error {
	if err := isDirectory(directory); err != nil {
		return err
	}
	if to.Path == "" {
		to = c.Kubeconfig
	}
	err := c.Move(ctx, upstream.MoveOptions{
		FromKubeconfig: c.Kubeconfig, ToKubeconfig: to, Namespace: namespace, FromDirectory: directory,
	})
	if err != nil {
		return fmt.Errorf("restoring clusters from %s: %w", directory, err)
	}
	return nil
}

// isDirectory fails if there is no directory at path.
func isDirectory(path string) error {
	if info, err := os.Stat(path); err != nil {
		return fmt.Errorf("looking for the directory: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", path)
	}
	return nil
}

// CallOffCommand returns the command that calls off the offers.
func (c *Client) CallOffCommand(h HandOver) string {
	return "capstan clusterctl move call-off" + moveFlags(h.Namespace, c.named, h.To)
}

// MoveCommand returns the command that moves the clusters with upstream's clusterctl.
func (c *Client) MoveCommand(h HandOver) string {
	return "clusterctl move" + moveFlags(h.Namespace, c.Kubeconfig, h.To)
}

// DescribeCommand returns the command that shows a cluster in the target.
func DescribeCommand(h HandOver) string {
	return "capstan clusterctl describe cluster NAME" + moveFlags(h.Namespace, h.To, upstream.Kubeconfig{})
}

// moveFlags returns the flags for a namespace and the management clusters to move from and to.
func moveFlags(namespace string, from, to upstream.Kubeconfig) string {
	text := " -n " + Quote(namespace)
	for _, f := range []struct{ name, value string }{
		{"kubeconfig", from.Path}, {"kubeconfig-context", from.Context},
		{"to-kubeconfig", to.Path}, {"to-kubeconfig-context", to.Context},
	} {
		if f.value != "" {
			text += " --" + f.name + " " + Quote(f.value)
		}
	}
	return text
}
