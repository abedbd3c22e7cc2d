package inventory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// cluster is what is known about one Cluster, or about the machines of a Cluster that no longer exists.
type cluster struct {
	// admitted is true once its control plane or infrastructure exists, which means that the capacity gate admitted it.
	admitted bool
	// wants is the number of machines that its topology asks for. made is the number that its control plane and
	// MachineDeployments ask for. lives is the number of its machines that are not being deleted.
	wants, made, lives int
	// controlPlaneSurge and workerSurges are the additional machines of each rollout. atOnce is how many groups of workers
	// are rolled out at the same time; 0 means 1.
	controlPlaneSurge int
	workerSurges      []int
	atOnce            int
	// wantsIn and madeIn count, by zone, the machines of wants and made that are bound to a zone.
	wantsIn, madeIn map[string]int
}

// hosts returns how many hosts the cluster wants.
func (c *cluster) hosts() int { return max(c.wants, c.made, c.lives) }

// surge returns how many additional hosts an upgrade needs at most. The control plane and the workers are upgraded one
// after the other, and the order of the workers is unknown.
func (c *cluster) surge() int {
	if !c.admitted {
		return 0
	}
	workers := slices.Sorted(slices.Values(c.workerSurges))
	sum := 0
	for _, n := range workers[len(workers)-min(max(c.atOnce, 1), len(workers)):] {
		sum += n
	}
	return max(c.controlPlaneSurge, sum)
}

// look collects what namespaces ask for.
type look struct {
	reader client.Reader
	// asks holds the namespaces that ask for hosts. going holds the namespaces that are being deleted.
	asks, going map[string]bool
	clusters    map[client.ObjectKey]*cluster
	// bound holds the zones of machines that are bound to one, by the key of their CapstanMachine.
	bound map[client.ObjectKey]string
	// besides counts, by namespace, the hosts that serve no live machine. They count as wanted until they are free.
	besides map[string]int
}

// Look returns the demand of each namespace, sorted by namespace. A namespace asks for hosts if it has a Cluster, a
// CapstanCluster or a CapstanMachine that is not being deleted; Clusters of other providers don't count. Home always
// asks. Any other namespace with enrolled hosts does not ask: its machines are meant for those hosts, which can't reach
// local ones. hosts are the hosts of all namespaces. Look leaves Has and Claimed unset; [Decide] computes them.
func Look(ctx context.Context, c client.Reader, hosts []infrav1.CapstanHost) ([]Demand, error) {
	l := &look{
		reader: c, asks: map[string]bool{Home: true}, going: map[string]bool{},
		clusters: map[client.ObjectKey]*cluster{}, besides: map[string]int{}, bound: map[client.ObjectKey]string{},
	}
	for _, step := range []func(context.Context) error{
		l.namespaces, l.topologies, l.infrastructure, l.controlPlanes, l.deployments, l.placed,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	if err := l.machines(ctx, hosts); err != nil {
		return nil, err
	}
	return l.demands(hosts), nil
}

// list lists objects of all namespaces.
func (l *look) list(ctx context.Context, list client.ObjectList, what string) error {
	if err := l.reader.List(ctx, list); err != nil {
		return fmt.Errorf("listing %s: %w", what, err)
	}
	return nil
}

// cluster returns the entry of a Cluster, and creates it if necessary.
func (l *look) cluster(namespace, name string) *cluster {
	key := client.ObjectKey{Namespace: namespace, Name: name}
	if l.clusters[key] == nil {
		l.clusters[key] = &cluster{wantsIn: map[string]int{}, madeIn: map[string]int{}}
	}
	return l.clusters[key]
}

func (l *look) namespaces(ctx context.Context) error {
	list := &corev1.NamespaceList{}
	if err := l.list(ctx, list, "namespaces"); err != nil {
		return err
	}
	for _, namespace := range list.Items {
		l.going[namespace.Name] = !namespace.DeletionTimestamp.IsZero()
	}
	return nil
}

// topologies reads the Clusters. It counts what those with a topology want, and skips those of other providers.
func (l *look) topologies(ctx context.Context) error {
	list := &clusterv1.ClusterList{}
	if err := l.list(ctx, list, "Clusters"); err != nil {
		return err
	}
	classes := &classes{reader: l.reader}
	for i := range list.Items {
		object := &list.Items[i]
		if !object.DeletionTimestamp.IsZero() {
			continue
		}
		wants, zones, ours, err := classes.wants(ctx, object)
		if err != nil {
			return err
		}
		if !ours {
			continue
		}
		l.asks[object.Namespace] = true
		c := l.cluster(object.Namespace, object.Name)
		// 0 means the default, 1.
		c.atOnce, _ = strconv.Atoi(object.Annotations[clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation])
		c.admitted = object.Spec.InfrastructureRef.IsDefined() || object.Spec.ControlPlaneRef.IsDefined()
		if c.admitted || !isPaused(object) { // a Cluster paused before it was admitted does not continue on its own
			c.wants, c.wantsIn = wants, zones
		}
	}
	return nil
}

func isPaused(cluster *clusterv1.Cluster) bool {
	_, annotated := cluster.Annotations[clusterv1.PausedAnnotation]
	return annotated || cluster.Spec.Paused != nil && *cluster.Spec.Paused
}

func (l *look) infrastructure(ctx context.Context) error {
	list := &infrav1.CapstanClusterList{}
	if err := l.list(ctx, list, "CapstanClusters"); err != nil {
		return err
	}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp.IsZero() {
			l.asks[list.Items[i].Namespace] = true
		}
	}
	return nil
}

// controlPlanes counts the machines that KubeadmControlPlanes want. A cluster with a control plane has been admitted.
func (l *look) controlPlanes(ctx context.Context) error {
	list := &controlplanev1.KubeadmControlPlaneList{}
	if err := l.list(ctx, list, "KubeadmControlPlanes"); err != nil {
		return err
	}
	for i := range list.Items {
		object := &list.Items[i]
		isOurs := object.Spec.MachineTemplate.Spec.InfrastructureRef.APIGroup == infrav1.GroupVersion.Group
		if !isOurs || !object.DeletionTimestamp.IsZero() {
			continue
		}
		c := l.cluster(object.Namespace, nameOfCluster(object))
		c.admitted = true
		n := replicas(object.Spec.Replicas, nil)
		c.made += n
		c.controlPlaneSurge = surgeOf(object.Spec.Rollout.Strategy.RollingUpdate.MaxSurge, n)
	}
	return nil
}

// deployments counts the machines that MachineDeployments want.
func (l *look) deployments(ctx context.Context) error {
	list := &clusterv1.MachineDeploymentList{}
	if err := l.list(ctx, list, "MachineDeployments"); err != nil {
		return err
	}
	for i := range list.Items {
		object := &list.Items[i]
		isOurs := object.Spec.Template.Spec.InfrastructureRef.APIGroup == infrav1.GroupVersion.Group
		if !isOurs || !object.DeletionTimestamp.IsZero() {
			continue
		}
		c := l.cluster(object.Namespace, object.Spec.ClusterName)
		n := replicas(object.Spec.Replicas, nil)
		c.admitted = true
		c.made += n
		c.madeIn[object.Spec.Template.Spec.FailureDomain] += n
		if strategy := object.Spec.Rollout.Strategy; strategy.Type != clusterv1.OnDeleteMachineDeploymentStrategyType {
			c.workerSurges = append(c.workerSurges, surgeOf(strategy.RollingUpdate.MaxSurge, n))
		}
	}
	return nil
}

// placed finds the machines that are bound to a zone. It counts those of control planes one by one; workers are already
// counted in the zone of their MachineDeployment.
func (l *look) placed(ctx context.Context) error {
	list := &clusterv1.MachineList{}
	if err := l.list(ctx, list, "Machines"); err != nil {
		return err
	}
	for i := range list.Items {
		object := &list.Items[i]
		zone, ref := object.Spec.FailureDomain, object.Spec.InfrastructureRef
		if zone == "" || ref.APIGroup != infrav1.GroupVersion.Group || !object.DeletionTimestamp.IsZero() {
			continue
		}
		l.bound[client.ObjectKey{Namespace: object.Namespace, Name: ref.Name}] = zone
		if _, is := object.Labels[clusterv1.MachineControlPlaneLabel]; is {
			l.cluster(object.Namespace, object.Spec.ClusterName).madeIn[zone]++
			l.cluster(object.Namespace, object.Spec.ClusterName).wantsIn[zone]++
		}
	}
	return nil
}

// zones counts, by zone, the machines of a namespace that are bound to a zone and have no host yet.
func (l *look) zones(namespace string, hosts []infrav1.CapstanHost) map[string]int {
	lacks := map[string]int{}
	for key, c := range l.clusters {
		if key.Namespace != namespace {
			continue
		}
		for zone, n := range c.wantsIn {
			lacks[zone] += max(n, c.madeIn[zone])
		}
		for zone, n := range c.madeIn {
			if _, counted := c.wantsIn[zone]; !counted {
				lacks[zone] += n
			}
		}
	}
	for i := range hosts {
		claim := hosts[i].Spec.Claim
		if claim == nil || hosts[i].Namespace != namespace {
			continue
		}
		if zone, is := l.bound[client.ObjectKey{Namespace: namespace, Name: claim.Machine}]; is {
			lacks[zone]--
		}
	}
	maps.DeleteFunc(lacks, func(zone string, n int) bool { return zone == "" || n <= 0 })
	if len(lacks) == 0 {
		return nil
	}
	return lacks
}

// nameOfCluster returns the name of the Cluster that an object belongs to.
func nameOfCluster(object client.Object) string {
	return object.GetLabels()[clusterv1.ClusterNameLabel]
}

// machines counts the live machines, and the hosts that serve none of them: hosts that are being cleaned, and hosts
// that an administrator has closed to claims.
func (l *look) machines(ctx context.Context, hosts []infrav1.CapstanHost) error {
	list := &infrav1.CapstanMachineList{}
	if err := l.list(ctx, list, "CapstanMachines"); err != nil {
		return err
	}
	live := map[client.ObjectKey]bool{}
	for i := range list.Items {
		object := &list.Items[i]
		if !object.DeletionTimestamp.IsZero() {
			continue
		}
		live[client.ObjectKeyFromObject(object)] = true
		l.asks[object.Namespace] = true
		c := l.cluster(object.Namespace, nameOfCluster(object))
		c.admitted = true
		c.lives++
	}
	for i := range hosts {
		host := &hosts[i]
		if _, ours := numberOf(host); !ours {
			continue
		}
		claim := host.Spec.Claim
		if claim == nil && host.Spec.Closed() ||
			claim != nil && !live[client.ObjectKey{Namespace: host.Namespace, Name: claim.Machine}] {
			l.besides[host.Namespace]++
		}
	}
	return nil
}

// demands returns the demand of each namespace, sorted by namespace.
func (l *look) demands(hosts []infrav1.CapstanHost) []Demand {
	has, enrolled := map[string]int{}, map[string]bool{}
	for i := range hosts {
		if hosts[i].Spec.Supplier == "" && hosts[i].Namespace != Home {
			enrolled[hosts[i].Namespace] = true
		}
		if _, ours := numberOf(&hosts[i]); ours && hosts[i].DeletionTimestamp.IsZero() {
			has[hosts[i].Namespace]++
		}
	}
	all := map[string]*Demand{}
	for namespace := range l.asks {
		n := l.besides[namespace]
		all[namespace] = &Demand{
			Namespace: namespace, Asks: !l.going[namespace] && !enrolled[namespace], Promised: n, Wants: n,
		}
	}
	for key, c := range l.clusters {
		d := all[key.Namespace]
		switch n := c.hosts(); {
		case d == nil: // a control plane without any objects of ours
		case c.admitted:
			d.Promised, d.Wants, d.Surge = d.Promised+n, d.Wants+n, d.Surge+c.surge()
		case n > 0:
			d.Wants += n
			if d.Step == 0 || n < d.Step {
				d.Step = n
			}
		}
	}
	for namespace, d := range all {
		if d.Promised > has[namespace] {
			d.Step = 0 // each host helps a cluster that was admitted
		}
		d.Zones = l.zones(namespace, hosts)
	}
	demands := make([]Demand, 0, len(all))
	for _, namespace := range slices.Sorted(maps.Keys(all)) {
		demands = append(demands, *all[namespace])
	}
	return demands
}
