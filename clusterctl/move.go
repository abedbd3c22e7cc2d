package clusterctl

import (
	"context"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/handover"
)

// MayMove fails if the clusters of a namespace cannot move to the target. The reasons are that the target is this
// management cluster or does not answer, that some clusters are paused, or that machines are on local hosts, which are
// processes of this plane's dock. MayMove writes nothing. An empty target means a dry run, which needs no target.
func (c *Client) MayMove(ctx context.Context, namespace string, target upstream.Kubeconfig) error {
	if namespace == "" {
		return errNoNamespace
	}
	source, err := connect(c.Kubeconfig)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*answerTimeout)
	defer cancel()
	if target.Path != "" {
		if _, err := os.Stat(target.Path); err != nil {
			return fmt.Errorf("looking for the kubeconfig of the target: %w", err)
		}
		if _, err := c.open(ctx, target); err != nil {
			return err
		}
	}
	if err := resumable(ctx, source, c.Kubeconfig, namespace); err != nil {
		return err
	}
	hosts := &infrav1.CapstanHostList{}
	if err := source.List(ctx, hosts, client.InNamespace(namespace)); err != nil {
		if noMatch(err) {
			return nil // Capstan is not installed
		}
		return fmt.Errorf("listing hosts: %w", err)
	}
	return local(hosts.Items)
}

// clusterID returns an identifier of a management cluster that does not depend on the address of its API server.
func clusterID(ctx context.Context, c client.Client) (types.UID, error) {
	namespace := &corev1.Namespace{}
	err := c.Get(ctx, types.NamespacedName{Name: "kube-system"}, namespace)
	return namespace.UID, err
}

// local fails if a machine runs on a local host.
func local(hosts []infrav1.CapstanHost) error {
	var stay []string
	for _, h := range hosts {
		if h.Spec.Supplier != "" && h.Spec.Claim != nil {
			stay = append(stay, fmt.Sprintf("%s (cluster %s)", h.Name, h.Spec.Claim.Cluster))
		}
	}
	if len(stay) > 0 {
		return fmt.Errorf("local hosts are processes of this plane and can't move with their clusters: %s; move owned "+
			"hosts, or recreate the clusters in the target", strings.Join(stay, ", "))
	}
	return nil
}

// vouch returns the commands to vouch for the agents of hosts that block the move.
func vouch(hosts []infrav1.CapstanHost) []string {
	var commands []string
	for i := range hosts {
		if h := &hosts[i]; h.Spec.Claim != nil && !handover.HandedOver(h) && !handover.Leaving(h) {
			commands = append(commands, fmt.Sprintf("kubectl annotate --overwrite -n %s capstanhost %s %s=%s", h.Namespace,
				h.Name, infrav1.HandedOverAnnotation, h.UID))
		}
	}
	return commands
}
