package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/describe"
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
	snapshot string        // path of the file that was fetched
	hosts    []restoreHost // the first one gets the data
	want     int           // how many control plane machines there are in the end
	kept     string        // where the first host keeps its old data
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
		Example:           "  capstan backup restore demo --yes",
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

func (r *restore) run(ctx context.Context, store backup.Store) (err error) {
	directory, remove, err := backup.Scratch("")
	if err != nil {
		return err
	}
	defer remove()
	r.snapshot = filepath.Join(directory, "etcd.db")
	first := r.hosts[0]
	steps := []struct {
		name string
		do   func(detail func(string)) error
	}{
		{"snapshot read", func(func(string)) error { return store.Fetch(ctx, r.manifest, r.snapshot) }},
		{"control plane stopped", func(detail func(string)) error { return r.stop(ctx, detail) }},
		{"data replaced on " + first.name, func(func(string)) error { return r.replace(ctx, first.member) }},
		{"control plane answers", func(detail func(string)) error { return r.start(ctx, first.member, detail) }},
	}
	for _, step := range steps {
		if err := r.steps().Run(step.name, step.do); err != nil {
			return fmt.Errorf("restoring cluster %s: %w", r.cluster.Name, err)
		}
	}
	fmt.Fprintf(r.err, "Cluster %s is as it was at %s. Host %s keeps the old data in %s.\n",
		r.cluster.Name, r.manifest.Time.Local().Format(time.DateTime), first.name, r.kept)
	if err := r.steps().Run("other control plane machines replaced", func(detail func(string)) error { return r.replaceOthers(ctx, detail) }); err != nil {
		return errors.Join(fmt.Errorf("cluster %s has its data, and not all of its control plane: %w", r.cluster.Name, err), r.tellOrphans(ctx))
	}
	return r.tellOrphans(ctx)
}

// stop ends etcd everywhere: members that ran on would be another cluster of the same name. On failure all run again.
func (r *restore) stop(ctx context.Context, detail func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	var errs []error
	for _, h := range r.hosts {
		if h.member == nil {
			continue
		}
		detail("host " + h.name)
		if err := h.member.Stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("host %s: %w", h.name, err))
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
	return errors.Join(append(errs, r.startAll())...)
}

// startAll lets etcd run on all hosts again, as before.
func (r *restore) startAll() error {
	var errs []error
	for _, h := range r.hosts {
		if h.member != nil {
			errs = append(errs, h.member.Start())
		}
	}
	return errors.Join(errs...)
}

func (r *restore) replace(ctx context.Context, m *member.Member) (err error) {
	r.kept, err = m.Replace(func(directory string) error {
		return r.tool.Restore(ctx, r.snapshot, directory, backup.Identity{Name: m.Name, PeerURL: m.PeerURL})
	}, time.Now())
	switch {
	case errors.Is(err, member.ErrWithoutData):
		// The others with the old data, and this one with none, would be two clusters of one name.
		return hint("put the old data back on host "+r.hosts[0].name+", then begin again", "etcd was left stopped on all control plane hosts: %w", err)
	case err != nil:
		return errors.Join(err, r.startAll())
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
			if m.Spec.InfrastructureRef.Name != h.machine {
				continue
			}
			left[m.UID] = true
			if err := r.plane.Delete(ctx, m); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("deleting machine %s: %w", m.Name, err)
			}
		}
	}
	if len(left) == 0 && !incomplete(machines) {
		return nil // there is nobody to wait for, whatever the number is that is wanted
	}
	last := ""
	err = poll(ctx, func() (bool, error) {
		machines, err := r.machines(ctx)
		if err != nil {
			return false, err
		}
		last = missing(machines, left, r.want)
		detail(last)
		return last == "", nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return hint("it goes on in the background; see: capstan cluster describe "+r.cluster.Name+" --watch", "stopped waiting for the other control plane machines: %s", last)
	}
	return err
}

// incomplete tells whether a control plane machine comes or goes. Pure.
func incomplete(machines []clusterv1.Machine) bool {
	return slices.ContainsFunc(machines, func(m clusterv1.Machine) bool {
		_, is := m.Labels[clusterv1.MachineControlPlaneLabel]
		return is && (!m.DeletionTimestamp.IsZero() || !m.Status.NodeRef.IsDefined())
	})
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
	return fmt.Sprintf("%d of %d; %s", ready, want, describe.FirstUnready(pending))
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
