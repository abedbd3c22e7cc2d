package clusterctl

import (
	"context"
	"fmt"
	"os"

	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"

	"github.com/capstan-dev/capstan/internal/hint"
)

// Target is a management cluster as the user names it: by a kubeconfig, or not at all, which means this machine's
// plane. The Kubeconfig and Context of its Options are as the user set them.
type Target struct {
	Options

	// Home is the home directory of this machine's plane, Plane the path of its kubeconfig. Required.
	Home, Plane string
	// Stopped reports whether the plane is known to be stopped. The kubeconfig does not show this, because it outlives the
	// plane. Default: the plane may run.
	Stopped func(context.Context) bool
}

// Find returns the path of the kubeconfig to use. It fails if this machine's plane is not there, unless offline is
// true: then the path may be empty, or there may be no file at the path.
func (t Target) Find(ctx context.Context, offline bool) (kubeconfig string, err error) {
	if t.Kubeconfig != "" {
		if _, err := os.Stat(t.Kubeconfig); err != nil {
			return "", fmt.Errorf("looking for the kubeconfig: %w", err)
		}
		return t.Kubeconfig, nil
	}
	if _, err := os.Stat(t.Plane); err != nil && !offline {
		return "", hint.Errorf("run: capstan up, or name another management cluster with --kubeconfig",
			"no management plane in %s", t.Home)
	}
	if offline && t.Stopped != nil && t.Stopped(ctx) {
		return "", nil
	}
	return t.Plane, nil
}

// Open creates a client for the management cluster with the kubeconfig that Find returned.
func (t Target) Open(ctx context.Context, kubeconfig string) (*Client, error) {
	o := t.Options
	o.Kubeconfig = kubeconfig
	c, err := Open(ctx, o)
	if err != nil {
		if t.Kubeconfig == "" {
			return nil, hint.Errorf("run: capstan status", "%w", err)
		}
		return nil, err
	}
	c.named = upstream.Kubeconfig{Path: t.Kubeconfig, Context: t.Context}
	return c, nil
}
