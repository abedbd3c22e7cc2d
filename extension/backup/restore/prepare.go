package restore

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/backup"
	"github.com/capstan-dev/capstan/internal/hint"
)

// Options say what to restore. All fields are required unless they say otherwise.
type Options struct {
	// Plane is a client for the management cluster, with the types of Cluster API and Capstan.
	Plane client.Client
	// Cluster is the cluster to restore.
	Cluster *clusterv1.Cluster
	// Store has the backups. Backup is the name of the one to restore; the default is the newest.
	Store  backup.Store
	Backup string
	// Access returns the connection to the cluster.
	Access func(context.Context) (*backup.Access, error)
	// Hosts performs the operations on hosts.
	Hosts Hosts
	// Step runs a step and shows its progress. Step calls the function do, which performs the step. The
	// function do calls detail to report what it is waiting for. If Step is nil, steps run without output.
	Step func(name string, do func(detail func(string)) error) error
	// Note receives sentences for the user that belong to no step. It may be nil.
	Note func(string)
}

// Restore is a prepared restore.
type Restore struct {
	// Manifest describes the backup.
	Manifest backup.Manifest
	// Plan says which host gets the data.
	Plan Plan

	options  Options
	replicas int // the number of control plane machines at the end
	// ready checks whether the cluster's API server is ready; nodes returns the names of the Nodes that it knows.
	ready func(context.Context) error
	nodes func(context.Context) ([]string, error)
}

// Prepare finds everything that a restore needs. It changes nothing.
func Prepare(ctx context.Context, o Options) (*Restore, error) {
	if o.Step == nil {
		o.Step = func(_ string, do func(func(string)) error) error { return do(func(string) {}) }
	}
	r := &Restore{options: o}
	all, err := o.Store.List(ctx, o.Cluster.Namespace, o.Cluster.Name)
	if err != nil && !errors.Is(err, backup.ErrDamaged) {
		return nil, err
	}
	if err != nil && o.Note != nil {
		o.Note(fmt.Sprint("Left out: ", err))
	}
	if r.Manifest, err = choose(all, o.Backup); err != nil {
		return nil, hint.Errorf("see: capstan backup list "+o.Cluster.Name,
			"restoring cluster %s: %w", o.Cluster.Name, err)
	}
	access, err := o.Access(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.Manifest.Matches(access.Fingerprints); err != nil {
		return nil, fmt.Errorf("restoring cluster %s: %w", o.Cluster.Name, err)
	}
	r.ready = func(ctx context.Context) error { return ready(ctx, access.Config) }
	r.nodes = func(ctx context.Context) ([]string, error) { return nodes(ctx, access.Config) }
	world, err := r.look(ctx)
	if err != nil {
		return nil, err
	}
	if r.Plan, err = Decide(world); err != nil {
		return nil, err
	}
	controlPlane := &controlplanev1.KubeadmControlPlane{}
	key := client.ObjectKey{Namespace: o.Cluster.Namespace, Name: o.Cluster.Spec.ControlPlaneRef.Name}
	if err := o.Plane.Get(ctx, key, controlPlane); err != nil {
		return nil, fmt.Errorf("reading the control plane of cluster %s: %w", o.Cluster.Name, err)
	}
	r.replicas = int(ptr.Deref(controlPlane.Spec.Replicas, 1))
	return r, nil
}

// look reads the input of the plan.
func (r *Restore) look(ctx context.Context) (World, error) {
	w := World{Cluster: r.options.Cluster, Members: map[string]bool{}}
	hosts := &infrav1.CapstanHostList{}
	if err := r.options.Plane.List(ctx, hosts, client.InNamespace(w.Cluster.Namespace)); err != nil {
		return w, fmt.Errorf("listing hosts: %w", err)
	}
	var err error
	if w.Machines, err = r.machines(ctx); err != nil {
		return w, err
	}
	w.Hosts = controlPlaneHosts(hosts.Items, w.Cluster.Name)
	for _, h := range w.Hosts {
		if w.Members[h.Name], err = r.options.Hosts.Member(ctx, h.Name); err != nil {
			return w, err
		}
	}
	return w, nil
}

// machines lists the cluster's machines.
func (r *Restore) machines(ctx context.Context) ([]clusterv1.Machine, error) {
	list := &clusterv1.MachineList{}
	cluster := r.options.Cluster
	err := r.options.Plane.List(ctx, list,
		client.InNamespace(cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name})
	if err != nil {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	return list.Items, nil
}

// ready checks whether an API server is ready.
func ready(ctx context.Context, config *rest.Config) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	return d.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// nodes returns the names of the Nodes that an API server knows.
func nodes(ctx context.Context, config *rest.Config) ([]string, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	list := &corev1.NodeList{}
	if err := c.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	var names []string
	for _, n := range list.Items {
		names = append(names, n.Name)
	}
	return names, nil
}
