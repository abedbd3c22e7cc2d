package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func (a *app) hostAbandonCommand() *cobra.Command {
	return &cobra.Command{
		Use: "abandon NAME", Short: "Let the machine go that waits for a dead host", Args: cobra.ExactArgs(1),
		Example: "  capstan host abandon host-01",
		Long: `A deleted machine is gone when the agent has cleaned its host. The agent of a computer that has died for good never will: with this command you say
that you know, and the machine goes without it. See to it that the computer does not run on, for it would still run its node.

The host is not used again before its agent is back and has cleaned it; if the computer is gone, delete the CapstanHost.`,
		ValidArgsFunction: a.completeAbandonable,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			host := &infrav1.CapstanHost{}
			if err := c.Get(cmd.Context(), client.ObjectKey{Namespace: a.namespace, Name: args[0]}, host); client.IgnoreNotFound(err) != nil {
				return hint("run: capstan status", "reading host %s: %w", args[0], err)
			} else if err != nil {
				return hint("see: capstan host list", "there is no host %q", args[0])
			}
			if err := abandonable(host); err != nil {
				return err
			}
			before := host.DeepCopy()
			metav1.SetMetaDataAnnotation(&host.ObjectMeta, infrav1.AbandonAnnotation, host.Spec.Claim.ProviderID)
			// What was looked at is what is given up: a host that was claimed anew meanwhile is not.
			if err := c.Patch(cmd.Context(), host, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
				return hint("try again: the host has changed meanwhile", "giving up host %s: %w", host.Name, err)
			}
			fmt.Fprintf(a.err, "Machine %s no longer waits for host %s, which stays out of use until its agent has cleaned it.\n", host.Spec.Claim.Machine, host.Name)
			a.next("capstan host list", "capstan kubectl delete capstanhost "+host.Name+"   # if the computer is gone for good")
			return nil
		},
	}
}

// abandonable says why a host can't be given up; nil: it can. Pure.
func abandonable(host *infrav1.CapstanHost) error {
	claim := host.Spec.Claim
	switch {
	case host.Spec.Supplier != "":
		return hint("see: capstan host list", "host %s is a local one: it is destroyed and made again, and no machine waits for its agent", host.Name)
	case claim == nil:
		return hint("see: capstan host list", "host %s is claimed by no machine: there is nothing to give up", host.Name)
	case !claim.Released:
		return hint(fmt.Sprintf("delete its machine first: capstan kubectl get capstanmachine %s -o jsonpath='{.metadata.ownerReferences[0].name}'", claim.Machine),
			"host %s is in use by machine %s", host.Name, claim.Machine)
	case !meta.IsStatusConditionFalse(host.Status.Conditions, infrav1.HostOnlineCondition):
		return hint("see what it does: capstan host list", "the agent of host %s is there, and cleans it after machine %s: wait for it", host.Name, claim.Machine)
	}
	return nil
}

// completeAbandonable completes the names of the hosts that can be given up.
func (a *app) completeAbandonable(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || cmd.Root().PersistentPreRunE(cmd, args) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := a.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	list := &infrav1.CapstanHostList{}
	if err := c.List(ctx, list, client.InNamespace(a.namespace)); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for i := range list.Items {
		if abandonable(&list.Items[i]) == nil {
			names = append(names, list.Items[i].Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
