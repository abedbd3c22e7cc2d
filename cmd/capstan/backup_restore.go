package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/backup"
	"github.com/capstan-dev/capstan/extension/backup/member"
)

// stopTimeout bounds how long etcd and the API server have to end.
const stopTimeout = 90 * time.Second

// restore is one run of "backup restore".
type restore struct {
	*app
	plane    client.Client
	cluster  *clusterv1.Cluster
	access   *backup.Access
	tool     backup.Tool
	manifest backup.Manifest
	snapshot string // path of the file that was fetched
	hosts    []infrav1.CapstanHost
	kept     string // where the first host keeps its old data
}

func (a *app) backupRestoreCommand() *cobra.Command {
	var place backupPlace
	var timeout time.Duration
	var yes bool
	cmd := &cobra.Command{
		Use: "restore CLUSTER [BACKUP]", Short: "Put a backup (the newest, if none is named) back into a cluster on local hosts", Args: cobra.RangeArgs(1, 2),
		Long: `Put a backup back into a running cluster on local hosts. All that has changed in the cluster since then is lost; the API server is away for a while.
One control plane host gets the data, and keeps the old beside it. Other control plane machines are deleted, and made again by their owner.
docs/backup.md says how it is done on owned hosts.`,
		ValidArgsFunction: a.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			name := ""
			if len(args) == 2 {
				name = args[1]
			}
			store, err := a.backupStore(place)
			if err != nil {
				return err
			}
			r, err := a.planRestore(ctx, store, args[0], name)
			if err != nil {
				return err
			}
			if !yes {
				return hint("to do it, add --yes", "cluster %s would go back to %s (%s): all that was changed since is lost",
					r.cluster.Name, r.manifest.Name, r.manifest.Time.Local().Format(time.DateTime))
			}
			return r.run(ctx, store)
		},
	}
	place.flag(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it, and lose what was changed since")
	return cmd
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
	if r.hosts = controlPlaneHosts(hosts.Items, cluster); len(r.hosts) == 0 {
		return nil, hint("see: capstan cluster describe "+cluster, "cluster %s has no control plane host", cluster)
	}
	for _, h := range r.hosts {
		if _, err := os.Stat(a.home.HostRoot(h.Name)); err != nil {
			return nil, hint("docs/backup.md says how it is done on owned hosts", "host %s is not a local one: its files are not here", h.Name)
		}
	}
	return r, nil
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

func (r *restore) run(ctx context.Context, store backup.Store) (err error) {
	directory, err := os.MkdirTemp("", "capstan-restore-")
	if err != nil {
		return fmt.Errorf("making a directory for the snapshot: %w", err)
	}
	defer os.RemoveAll(directory)
	r.snapshot = filepath.Join(directory, "etcd.db")
	members := make([]*member.Member, 0, len(r.hosts))
	for _, h := range r.hosts {
		m, err := member.Read(r.home.HostRoot(h.Name))
		if err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
		members = append(members, m)
	}
	steps := []struct {
		name string
		do   func(detail func(string)) error
	}{
		{"snapshot read", func(func(string)) error { return store.Fetch(ctx, r.manifest, r.snapshot) }},
		{"control plane stopped", func(detail func(string)) error { return r.stop(ctx, members, detail) }},
		{"data replaced on " + r.hosts[0].Name, func(func(string)) error { return r.replace(ctx, members[0]) }},
		{"control plane answers", func(detail func(string)) error { return r.start(ctx, members[0], detail) }},
		{"other control plane machines replaced", func(detail func(string)) error { return r.replaceOthers(ctx, detail) }},
	}
	for _, step := range steps {
		if err := r.steps().Run(step.name, step.do); err != nil {
			return fmt.Errorf("restoring cluster %s: %w", r.cluster.Name, err)
		}
	}
	fmt.Fprintf(r.err, "Cluster %s is as it was at %s. Host %s keeps the old data in %s.\n",
		r.cluster.Name, r.manifest.Time.Local().Format(time.DateTime), r.hosts[0].Name, r.kept)
	return r.tellOrphans(ctx)
}

// stop ends etcd everywhere: members that ran on would be another cluster of the same name. On failure all run again.
func (r *restore) stop(ctx context.Context, members []*member.Member, detail func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	var errs []error
	for i, m := range members {
		detail("host " + r.hosts[i].Name)
		if err := m.Stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("host %s: %w", r.hosts[i].Name, err))
		}
	}
	// An API server that still answers would show what it remembers.
	if len(errs) == 0 {
		detail("waiting for the API server to end")
		if err := poll(ctx, func() (bool, error) { return ready(ctx, r.access.Config) != nil, nil }); err != nil {
			errs = append(errs, fmt.Errorf("waiting for the API server to end: %w", err))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	for _, m := range members {
		errs = append(errs, m.Start())
	}
	return errors.Join(errs...)
}

func (r *restore) replace(ctx context.Context, m *member.Member) (err error) {
	r.kept, err = m.Replace(func(directory string) error {
		return r.tool.Restore(ctx, r.snapshot, directory, backup.Identity{Name: m.Name, PeerURL: m.PeerURL})
	}, time.Now())
	if err != nil {
		return errors.Join(err, m.Start())
	}
	return nil
}

func (r *restore) start(ctx context.Context, m *member.Member, detail func(string)) error {
	if err := m.Start(); err != nil {
		return err
	}
	return poll(ctx, func() (bool, error) {
		err := ready(ctx, r.access.Config)
		if err != nil {
			detail(oneLine(err.Error(), 120))
		}
		return err == nil, nil
	})
}

// replaceOthers deletes the machines whose members were left out, and waits for those that their owner makes, which join the one that was restored.
func (r *restore) replaceOthers(ctx context.Context, detail func(string)) error {
	machines, err := r.machines(ctx)
	if err != nil {
		return err
	}
	left := map[types.UID]bool{}
	for _, h := range r.hosts[1:] {
		for i := range machines {
			m := &machines[i]
			if m.Spec.InfrastructureRef.Name != h.Spec.Claim.Machine {
				continue
			}
			left[m.UID] = true
			if err := r.plane.Delete(ctx, m); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("deleting machine %s: %w", m.Name, err)
			}
		}
	}
	if len(r.hosts) == 1 {
		return nil
	}
	last := ""
	err = poll(ctx, func() (bool, error) {
		machines, err := r.machines(ctx)
		if err != nil {
			return false, err
		}
		last = missing(machines, left, len(r.hosts))
		detail(last)
		return last == "", nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return hint("it goes on in the background; see: capstan cluster describe "+r.cluster.Name+" --watch", "stopped waiting for the other control plane machines: %s", last)
	}
	return err
}

// machines lists those of the cluster.
func (r *restore) machines(ctx context.Context) ([]clusterv1.Machine, error) {
	list := &clusterv1.MachineList{}
	if err := r.plane.List(ctx, list, client.InNamespace(r.cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: r.cluster.Name}); err != nil {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	return list.Items, nil
}

// missing says what a control plane of this many machines waits for until it is whole without those that are left; empty if for nothing. Pure.
func missing(machines []clusterv1.Machine, left map[types.UID]bool, want int) string {
	ready := 0
	var pending []clusterv1.Machine
	for _, m := range machines {
		if _, ok := m.Labels[clusterv1.MachineControlPlaneLabel]; !ok {
			continue
		}
		if left[m.UID] {
			return m.Name + " is being deleted"
		}
		if c := condition(m.Status.Conditions, clusterv1.MachineNodeReadyCondition); c != nil && c.Status == metav1.ConditionTrue && m.DeletionTimestamp.IsZero() {
			ready++
		} else {
			pending = append(pending, m)
		}
	}
	if ready >= want {
		return ""
	}
	return fmt.Sprintf("%d of %d; %s", ready, want, firstUnready(pending))
}

// tellOrphans names machines whose Nodes the restored cluster does not know: they were made after the backup.
func (r *restore) tellOrphans(ctx context.Context) error {
	c, err := client.New(r.access.Config, client.Options{Scheme: newScheme()})
	if err != nil {
		return fmt.Errorf("connecting to cluster %s: %w", r.cluster.Name, err)
	}
	nodes := &corev1.NodeList{}
	if err := c.List(ctx, nodes); err != nil {
		return fmt.Errorf("listing nodes of cluster %s: %w", r.cluster.Name, err)
	}
	known := map[string]bool{}
	for _, n := range nodes.Items {
		known[n.Name] = true
	}
	machines, err := r.machines(ctx)
	if err != nil {
		return err
	}
	next := []string{"capstan kubectl --cluster " + r.cluster.Name + " get nodes"}
	for _, m := range machines {
		if m.Status.NodeRef.IsDefined() && m.DeletionTimestamp.IsZero() && !known[m.Status.NodeRef.Name] {
			next = append(next, "capstan kubectl delete machine "+m.Name+"   # younger than the backup: the cluster does not know its Node")
		}
	}
	r.next(next...)
	return nil
}

// ready asks an API server whether it is ready.
func ready(ctx context.Context, config *rest.Config) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	return d.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}
