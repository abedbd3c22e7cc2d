package capacity

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/paging"
)

// snapshot is the gate's view of one namespace.
type snapshot struct {
	reader   client.Reader
	hosts    []Host
	objects  []infrav1.CapstanHost // the objects of hosts, in the same order
	claimed  map[string]bool       // names of the CapstanMachines that have a host
	clusters []clusterv1.Cluster
	classes  map[client.ObjectKey]*clusterv1.ClusterClass // classes read so far; nil if a class does not exist
	// templates holds the limits of the CapstanMachineTemplates read so far.
	templates map[client.ObjectKey]limits
	// local says which CapstanClusterTemplates read so far make clusters local.
	local map[client.ObjectKey]bool
	// limits holds the limits of needs, by name.
	limits map[string]limits
	// byCluster holds the Machines once they have been listed.
	byCluster map[string]machinesOf
}

// read lists the Clusters and hosts of a namespace. It lists hosts last, so that a claim made in between can only make
// the result more pessimistic.
func read(ctx context.Context, reader client.Reader, namespace string) (*snapshot, error) {
	s := &snapshot{
		reader: reader, claimed: map[string]bool{}, classes: map[client.ObjectKey]*clusterv1.ClusterClass{},
		templates: map[client.ObjectKey]limits{}, local: map[client.ObjectKey]bool{}, limits: map[string]limits{},
	}
	err := paging.List(ctx, source(reader, namespace, "Clusters"),
		func() *clusterv1.ClusterList { return &clusterv1.ClusterList{} },
		func(list *clusterv1.ClusterList) int {
			s.clusters = append(s.clusters, list.Items...)
			return len(s.clusters)
		})
	if err != nil {
		return nil, err
	}
	err = paging.List(ctx, source(reader, namespace, "CapstanHosts"),
		func() *infrav1.CapstanHostList { return &infrav1.CapstanHostList{} },
		func(list *infrav1.CapstanHostList) int {
			s.objects = append(s.objects, list.Items...)
			for i := range list.Items {
				s.hosts = append(s.hosts, hostOf(&list.Items[i]))
				if claim := list.Items[i].Spec.Claim; claim != nil {
					s.claimed[claim.Machine] = true
				}
			}
			return len(s.hosts)
		})
	return s, err
}

// source configures lists for the gate.
func source(reader client.Reader, namespace, what string) paging.Source {
	return paging.Source{Reader: reader, Namespace: namespace, What: what, By: "the capacity gate"}
}

// hostOf summarizes a host. The claim takes precedence over the phase: the claim is in the spec, while the phase may
// lag.
func hostOf(host *infrav1.CapstanHost) Host {
	h := Host{Zone: host.Spec.Zone, Versions: host.Status.KubernetesVersions}
	claim := host.Spec.Claim
	switch {
	case host.Status.Phase == infrav1.HostQuarantined:
		h.State = Quarantined
	case claim != nil && claim.Released:
		h.State = Cleaning
	case claim != nil:
		h.State, h.Cluster = Claimed, claim.Cluster
	case host.Spec.Closed() || !host.DeletionTimestamp.IsZero():
		h.State = Unschedulable
	case host.Status.Phase == infrav1.HostOff || host.Status.Phase == infrav1.HostAvailable:
		h.State = Free
	case host.Status.Phase == infrav1.HostOffline:
		h.State = Offline
	case host.Status.Phase == infrav1.HostCleaning:
		h.State = Cleaning
	default:
		h.State = Enrolling
	}
	return h
}

// wanted returns what the Cluster in question needs. ours is false if none of its machines are Capstan's.
func (s *snapshot) wanted(ctx context.Context, cluster *clusterv1.Cluster) (wanted Cluster, ours bool, err error) {
	class, err := s.class(ctx, cluster)
	if err != nil {
		return wanted, false, err
	}
	if class == nil {
		return wanted, false, fmt.Errorf("reading ClusterClass %s: it does not exist", cluster.GetClassKey())
	}
	needs, err := s.needs(ctx, cluster, class)
	wanted = Cluster{Name: cluster.Name, Created: cluster.CreationTimestamp.Time, Needs: needs}
	return wanted, isOurs(class), err
}

// others returns the other Clusters that have or want hosts of the namespace.
func (s *snapshot) others(
	ctx context.Context, cluster *clusterv1.Cluster, admitted func(*clusterv1.Cluster) bool,
) ([]Cluster, error) {
	var others []Cluster
	machines, err := s.machines(ctx, cluster.Namespace)
	if err != nil {
		return nil, err
	}
	for i := range s.clusters {
		other := &s.clusters[i]
		if other.Name == cluster.Name || !other.DeletionTimestamp.IsZero() {
			continue // it keeps what it has claimed until it is gone, but gets no more
		}
		o := Cluster{Name: other.Name, Created: other.CreationTimestamp.Time}
		o.Admitted = other.Spec.InfrastructureRef.IsDefined() || other.Spec.ControlPlaneRef.IsDefined() || admitted(other)
		switch {
		case !o.Admitted && isPaused(other):
			continue // it cannot go on by itself, so no hosts are kept for it
		case other.Spec.Topology.IsDefined():
			class, err := s.class(ctx, other)
			if err != nil {
				return nil, err
			}
			if class == nil {
				continue
			}
			if o.Needs, err = s.needs(ctx, other, class); err != nil {
				return nil, err
			}
			if o.Bound, err = s.bound(ctx, other, class); err != nil {
				return nil, err
			}
		default:
			// Without a topology, only the Machines show how large the Cluster is meant to be.
			o.Needs, o.Admitted = machines[other.Name].needs, true
		}
		if len(o.Needs) > 0 {
			others = append(others, o)
		}
	}
	return others, nil
}

// bound returns the control plane machines of a Cluster that wait for a host in their assigned zone.
func (s *snapshot) bound(
	ctx context.Context, cluster *clusterv1.Cluster, class *clusterv1.ClusterClass,
) ([]Need, error) {
	machines, err := s.machines(ctx, cluster.Namespace)
	if err != nil || len(machines[cluster.Name].bound) == 0 {
		return nil, err
	}
	limits := ""
	if class != nil {
		if limits, err = s.controlPlaneLimits(ctx, cluster, class); err != nil {
			return nil, err
		}
	}
	bound := slices.Clone(machines[cluster.Name].bound)
	for i := range bound {
		bound[i].Limits = limits
	}
	return bound, nil
}

func isPaused(cluster *clusterv1.Cluster) bool {
	_, annotated := cluster.Annotations[clusterv1.PausedAnnotation]
	return annotated || (cluster.Spec.Paused != nil && *cluster.Spec.Paused)
}

// class reads the ClusterClass of a Cluster, each class at most once. It returns nil if the class does not exist.
func (s *snapshot) class(ctx context.Context, cluster *clusterv1.Cluster) (*clusterv1.ClusterClass, error) {
	key := cluster.GetClassKey()
	if class, ok := s.classes[key]; ok {
		return class, nil
	}
	class := &clusterv1.ClusterClass{}
	err := s.reader.Get(ctx, key, class)
	if apierrors.IsNotFound(err) {
		class, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ClusterClass %s: %w", key, err)
	}
	s.classes[key] = class
	return class, nil
}

// machinesOf describes the Capstan Machines of a Cluster.
type machinesOf struct {
	needs []Need
	// bound are the control plane Machines that wait for a host in their assigned zone.
	bound []Need
}

// machines lists the Capstan Machines in a namespace, by Cluster, at most once.
func (s *snapshot) machines(ctx context.Context, namespace string) (map[string]machinesOf, error) {
	if s.byCluster != nil {
		return s.byCluster, nil
	}
	byCluster := map[string]machinesOf{}
	count := 0
	err := paging.List(ctx, source(s.reader, namespace, "Machines"),
		func() *clusterv1.MachineList { return &clusterv1.MachineList{} },
		func(list *clusterv1.MachineList) int {
			for i := range list.Items {
				count++
				m := &list.Items[i]
				if m.Spec.InfrastructureRef.APIGroup != infrav1.GroupVersion.Group || !m.DeletionTimestamp.IsZero() {
					continue
				}
				need := Need{Zone: m.Spec.FailureDomain, Version: m.Spec.Version, Hosts: 1}
				of := byCluster[m.Spec.ClusterName]
				of.needs = append(of.needs, need)
				_, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
				if controlPlane && need.Zone != "" && !s.claimed[m.Spec.InfrastructureRef.Name] {
					of.bound = append(of.bound, need)
				}
				byCluster[m.Spec.ClusterName] = of
			}
			return count
		})
	if err == nil {
		s.byCluster = byCluster
	}
	return byCluster, err
}
