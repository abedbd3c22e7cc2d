//go:build linux

package plane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// restoredFile marks a plane that was restored from a backup and has not started since.
const restoredFile = "restored"

// MarkRestored marks the plane in a directory as restored from a backup, because its hosts may have changed since the
// backup.
func MarkRestored(dir string) error {
	file, err := os.OpenFile(filepath.Join(dir, restoredFile), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("marking the plane as restored: %w", err)
	}
	return errors.Join(file.Sync(), file.Close())
}

// afterRestore makes a restored plane forget what may be outdated about its hosts, before any controller runs. If the
// start is killed, the next start repeats it.
func afterRestore(ctx context.Context, dir string, connect func() (client.Client, error)) error {
	mark := filepath.Join(dir, restoredFile)
	if _, err := os.Lstat(mark); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	c, err := connect()
	if err == nil {
		err = forgetOutlived(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("preparing a plane that was restored: %w", err)
	}
	return os.Remove(mark)
}

// connectTo returns a client that knows hosts and machines.
func connectTo(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(infrav1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// forgetOutlived deletes what agents of owned hosts have reported, so that no host counts as free before its agent has
// told this plane whether a machine is on the host. It also replaces machines without a host: such a machine may have
// claimed a host after the backup, and would now claim a second one.
func forgetOutlived(ctx context.Context, c client.Client) error {
	hosts := &infrav1.CapstanHostList{}
	if err := c.List(ctx, hosts); err != nil {
		return err
	}
	claimed := map[string]bool{}
	for i := range hosts.Items {
		h := &hosts.Items[i]
		if h.Spec.Claim != nil {
			claimed[h.Spec.Claim.MachineUID] = true
			claimed[h.Spec.Claim.ProviderID] = true
		}
		if h.Spec.Supplier != "" {
			continue
		}
		before := h.DeepCopy()
		h.Status = infrav1.CapstanHostStatus{}
		if err := c.Status().Patch(ctx, h, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	machines := &infrav1.CapstanMachineList{}
	if err := c.List(ctx, machines); err != nil {
		return err
	}
	for i := range machines.Items {
		m := &machines.Items[i]
		if claimed[string(m.UID)] || m.Spec.ProviderID != "" {
			continue
		}
		if err := replaceMachine(ctx, c, m); err != nil {
			return err
		}
	}
	return nil
}

// replaceMachine deletes the Machine of a CapstanMachine, or the CapstanMachine itself if it has no Machine.
func replaceMachine(ctx context.Context, c client.Client, m *infrav1.CapstanMachine) error {
	var doomed client.Object = m
	owner, err := util.GetOwnerMachine(ctx, c, m.ObjectMeta)
	switch {
	case err == nil && owner != nil:
		doomed = owner
	case err != nil && !apierrors.IsNotFound(err):
		return err
	}
	klog.Background().Info("A machine without a host is recreated: the plane was restored from a backup",
		"namespace", m.Namespace, "machine", doomed.GetName(), "of", clusterv1.GroupVersion.String())
	return client.IgnoreNotFound(c.Delete(ctx, doomed))
}
