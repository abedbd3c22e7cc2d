package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/backup"
	"github.com/capstan-dev/capstan/extension/backup/member"
)

// restoreHost is a host with a control plane machine.
type restoreHost struct {
	name, machine string
	leaving       bool           // the machine is being deleted
	member        *member.Member // nil: etcd isn't there yet
}

// planRestore finds everything that is needed, and changes nothing.
func (a *app) planRestore(ctx context.Context, store backup.Store, cluster, name string) (r *restore, err error) {
	r = &restore{app: a}
	if r.plane, err = a.client(); err != nil {
		return nil, err
	}
	if r.cluster, err = a.cluster(ctx, r.plane, cluster); err != nil {
		return nil, err
	}
	all, err := store.List(ctx, r.cluster.Namespace, cluster)
	if err != nil && !errors.Is(err, backup.ErrDamaged) {
		return nil, err
	}
	if err != nil {
		fmt.Fprintln(a.err, "Left out:", err)
	}
	if r.manifest, err = chooseBackup(all, name); err != nil {
		return nil, hint("see: capstan backup list "+cluster, "restoring cluster %s: %w", cluster, err)
	}
	if r.access, err = a.backupAccess(ctx, cluster); err != nil {
		return nil, err
	}
	if err := r.manifest.Matches(r.access.Fingerprints); err != nil {
		return nil, fmt.Errorf("restoring cluster %s: %w", cluster, err)
	}
	if r.tool, err = a.backupTool(); err != nil {
		return nil, err
	}
	hosts := &infrav1.CapstanHostList{}
	if err := r.plane.List(ctx, hosts, client.InNamespace(r.cluster.Namespace)); err != nil {
		return nil, fmt.Errorf("listing hosts: %w", err)
	}
	machines, err := r.machines(ctx)
	if err != nil {
		return nil, err
	}
	if r.hosts, err = a.restoreHosts(controlPlaneHosts(hosts.Items, cluster), machines); err != nil {
		return nil, err
	}
	if err := restorable(r.cluster, r.hosts); err != nil {
		return nil, err
	}
	r.want, err = r.controlPlaneReplicas(ctx)
	return r, err
}

// restoreHosts looks at hosts with control plane machines. The first one is best for the data.
func (a *app) restoreHosts(hosts []infrav1.CapstanHost, machines []clusterv1.Machine) ([]restoreHost, error) {
	var all []restoreHost
	for _, h := range hosts {
		root := a.home.HostRoot(h.Name)
		if _, err := os.Stat(root); err != nil {
			return nil, hint("docs/backup.md says how it is done on owned hosts", "host %s is not a local one: its files are not here", h.Name)
		}
		m, err := member.Read(root)
		if err != nil && !errors.Is(err, member.ErrNone) {
			return nil, fmt.Errorf("host %s: %w", h.Name, err)
		}
		leaving := slices.ContainsFunc(machines, func(m clusterv1.Machine) bool {
			return m.Spec.InfrastructureRef.Name == h.Spec.Claim.Machine && !m.DeletionTimestamp.IsZero()
		})
		all = append(all, restoreHost{name: h.Name, machine: h.Spec.Claim.Machine, leaving: leaving, member: m})
	}
	slices.SortStableFunc(all, func(a, b restoreHost) int { return a.rank() - b.rank() })
	return all, nil
}

// rank is higher for hosts that are worse for the data. Pure.
func (h restoreHost) rank() int {
	switch {
	case h.member == nil:
		return 2
	case h.leaving:
		return 1
	}
	return 0
}

// restorable says why nothing can be restored now; nil: it can. Pure.
func restorable(cluster *clusterv1.Cluster, hosts []restoreHost) error {
	describe := "see: capstan cluster describe " + cluster.Name
	switch {
	case !cluster.DeletionTimestamp.IsZero():
		return hint(describe, "cluster %s is being deleted", cluster.Name)
	case ptr.Deref(cluster.Spec.Paused, false):
		return hint(`resume it: capstan kubectl patch cluster `+cluster.Name+` --type merge -p '{"spec":{"paused":null}}'`,
			"cluster %s is paused: control plane machines would not be replaced", cluster.Name)
	case len(hosts) == 0:
		return hint(describe, "cluster %s has no control plane host", cluster.Name)
	case hosts[0].rank() > 0:
		return hint(describe+"; wait until a control plane machine has joined", "cluster %s has no host with etcd whose machine stays: the data has no place to go", cluster.Name)
	}
	return nil
}

// controlPlaneReplicas is how many control plane machines the cluster shall have.
func (r *restore) controlPlaneReplicas(ctx context.Context) (int, error) {
	controlPlane := &controlplanev1.KubeadmControlPlane{}
	err := r.plane.Get(ctx, client.ObjectKey{Namespace: r.cluster.Namespace, Name: r.cluster.Spec.ControlPlaneRef.Name}, controlPlane)
	if err != nil {
		return 0, fmt.Errorf("reading the control plane of cluster %s: %w", r.cluster.Name, err)
	}
	return int(ptr.Deref(controlPlane.Spec.Replicas, 1)), nil
}

// chooseBackup finds a backup by name, or the newest. Pure.
func chooseBackup(all []backup.Manifest, name string) (backup.Manifest, error) {
	if len(all) == 0 {
		return backup.Manifest{}, errors.New("it has no backup")
	}
	if name == "" {
		return all[len(all)-1], nil
	}
	i := slices.IndexFunc(all, func(m backup.Manifest) bool { return m.Name == name })
	if i < 0 {
		return backup.Manifest{}, fmt.Errorf("it has no backup %q", name)
	}
	return all[i], nil
}

// controlPlaneHosts finds the hosts with the control plane machines of a cluster, by name. Pure.
func controlPlaneHosts(all []infrav1.CapstanHost, cluster string) []infrav1.CapstanHost {
	var found []infrav1.CapstanHost
	for _, h := range all {
		if claim := h.Spec.Claim; claim != nil && claim.Cluster == cluster && claim.ControlPlane && !claim.Released {
			found = append(found, h)
		}
	}
	slices.SortFunc(found, func(a, b infrav1.CapstanHost) int { return strings.Compare(a.Name, b.Name) })
	return found
}
