package local

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/hint"
)

// Abandon gives up on a dead host so that the machine waiting for its agent can be deleted, and returns that machine's
// name. It refuses a local host, a host that a machine uses, and a host whose agent is still cleaning it.
func Abandon(ctx context.Context, c client.Client, host client.ObjectKey) (machine string, err error) {
	h, err := getHost(ctx, c, host)
	if err != nil {
		return "", err
	}
	if err := abandonable(h); err != nil {
		return "", err
	}
	before := h.DeepCopy()
	metav1.SetMetaDataAnnotation(&h.ObjectMeta, infrav1.AbandonAnnotation, h.Spec.Claim.ProviderID)
	// The optimistic lock makes the patch fail if the host was claimed again in the meantime.
	if err := c.Patch(ctx, h, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return "", hint.Errorf("try again: the host has changed meanwhile", "abandoning host %s: %w", h.Name, err)
	}
	return h.Spec.Claim.Machine, nil
}

// AbandonableHosts returns the names of the hosts in a namespace that Abandon would give up on.
func AbandonableHosts(ctx context.Context, c client.Reader, namespace string) ([]string, error) {
	list := &infrav1.CapstanHostList{}
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing hosts: %w", err)
	}
	var names []string
	for i := range list.Items {
		if abandonable(&list.Items[i]) == nil {
			names = append(names, list.Items[i].Name)
		}
	}
	return names, nil
}

// abandonable returns why a host can't be given up, or nil if it can.
func abandonable(host *infrav1.CapstanHost) error {
	claim := host.Spec.Claim
	switch {
	case host.Spec.Supplier != "":
		return hint.Errorf("see: capstan host list",
			"host %s is a local host: the dock recreates it, so no machine waits for its agent", host.Name)
	case claim == nil:
		return hint.Errorf("see: capstan host list", "no machine claims host %s: there is nothing to abandon",
			host.Name)
	case !claim.Released:
		find := "capstan kubectl get capstanmachine " + claim.Machine +
			" -o jsonpath='{.metadata.ownerReferences[0].name}'"
		return hint.Errorf("delete its machine first: "+find, "host %s is in use by machine %s", host.Name, claim.Machine)
	case !meta.IsStatusConditionFalse(host.Status.Conditions, infrav1.HostOnlineCondition):
		return hint.Errorf("follow its progress: capstan host list",
			"the agent of host %s is online, and is cleaning up after machine %s: wait for it", host.Name, claim.Machine)
	}
	return nil
}
