package clusterctl

import (
	"context"
	"fmt"
	"os"

	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"

	"github.com/capstan-dev/capstan/internal/hint"
)

// Target is a management cluster as a user names it: by a kubeconfig, or not at all, which means the plane of this
// machine. The Kubeconfig and the Context of its Options are what the user has named.
type Target struct {
	Options

	// Home is the home directory of the plane of this machine, Plane the path of its kubeconfig. Required.
	Home, Plane string
	// Stopped reports whether the plane is known not to run: its kubeconfig outlives it. Default: it may run.
	Stopped func(context.Context) bool
}

// Find returns the path of the kubeconfig that is meant. With offline there need not be any: the path is empty, or no
// file is there. Else a plane that is not there is an error.
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

// Open makes a client of the management cluster, for the kubeconfig that Find has found.
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
