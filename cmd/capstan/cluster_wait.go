package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/describe"
)

// waiting says whether and how long to wait until an operation is complete.
type waiting struct {
	wait    bool
	timeout time.Duration
}

// add adds the flags to a command.
func (w *waiting) add(cmd *cobra.Command, usage string, timeout time.Duration) {
	cmd.Flags().BoolVar(&w.wait, "wait", true, usage)
	cmd.Flags().DurationVar(&w.timeout, "timeout", timeout, "how long to wait")
}

// key returns the key of a cluster in the namespace of this command.
func (a *app) key(cluster string) client.ObjectKey {
	return client.ObjectKey{Namespace: a.namespace, Name: cluster}
}

// waitForCluster waits until all Nodes of the cluster are Ready, and shows the steps.
func (a *app) waitForCluster(ctx context.Context, c client.Reader, name string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p, left := a.steps(), describe.Steps()
	p.Start(string(left[0]))
	err := describe.Wait(ctx, c, a.key(name), func(now describe.Progress) {
		for len(left) > 0 && left[0] != now.Step {
			p.Done()
			if left = left[1:]; len(left) > 0 {
				p.Start(string(left[0]))
			}
		}
		p.Detail(now.Detail)
	})
	if err != nil {
		p.Fail()
	}
	return err
}

// waitForDeletion waits until a cluster is gone, and shows what delays its deletion.
func (a *app) waitForDeletion(ctx context.Context, c client.Reader, name string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return a.steps().Run("cluster "+name+" deleted", func(detail func(string)) error {
		return describe.WaitDeleted(ctx, c, a.key(name), detail)
	})
}
