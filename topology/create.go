package topology

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/hint"
)

// Create makes the Cluster of a request that passes [Request.Validate] and [Request.Check].
func Create(ctx context.Context, c client.Client, r Request) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if err := r.Check(ctx, c); err != nil {
		return err
	}
	err := c.Create(ctx, r.Cluster())
	if apierrors.IsAlreadyExists(err) {
		return hint.Errorf("choose another name, or: capstan cluster describe "+r.Name,
			"there is a cluster %q already", r.Name)
	}
	if err != nil {
		return fmt.Errorf("creating cluster %s: %w", r.Name, err)
	}
	return nil
}

// Check finds what would make the cluster wait for ever: an unknown class, more machines than the inventory has hosts.
func (r Request) Check(ctx context.Context, c client.Reader) error {
	classes := &clusterv1.ClusterClassList{}
	if err := c.List(ctx, classes, client.InNamespace(r.Namespace)); err != nil {
		return hint.Errorf("run: capstan status", "reaching the management plane: %w", err)
	}
	names := make([]string, 0, len(classes.Items))
	for _, class := range classes.Items {
		names = append(names, class.Name)
	}
	if !slices.Contains(names, r.Class) {
		slices.Sort(names)
		return hint.Errorf("classes that exist: "+strings.Join(names, ", "),
			"there is no ClusterClass %q in namespace %s", r.Class, r.Namespace)
	}
	hosts := &infrav1.CapstanHostList{}
	if err := c.List(ctx, hosts, client.InNamespace(r.Namespace)); err != nil {
		return fmt.Errorf("listing hosts: %w", err)
	}
	if need, have := int(r.ControlPlane+r.Workers), len(hosts.Items); need > have {
		return hint.Errorf("make the cluster smaller, or get more hosts: capstan up --hosts "+fmt.Sprint(need),
			"the cluster needs %d hosts and the inventory of namespace %s has %d", need, r.Namespace, have)
	}
	return nil
}
