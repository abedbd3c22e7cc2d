package capacity

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// The variables of a ClusterClass that select hosts by their labels, like those of class capstan-owned. Patches that
// use other variables are not evaluated, so what they select does not count.
const (
	controlPlaneHosts = "controlPlaneHosts"
	workerHosts       = "workerHosts"
)

// limits say which hosts the machines of a kind can use. The zero value means all.
type limits struct {
	selector *metav1.LabelSelector
	hardware infrav1.HostRequirements
	// local excludes hosts that have enrolled, because a balancer of the management plane does not reach them.
	local bool
}

// onlyLocal is the name of limits whose only restriction is to local hosts. The names of limits with that and other
// restrictions begin with onlyLocal and a comma.
const onlyLocal = "local"

// name returns the limits in words, the same words for equal limits, or "" if there are none.
func (l limits) name() string {
	var words []string
	if l.local {
		words = append(words, onlyLocal)
	}
	if l.selector != nil {
		if selected := metav1.FormatLabelSelector(l.selector); selected != "" && selected != "<none>" {
			words = append(words, "labels "+selected)
		}
	}
	if l.hardware.Architecture != "" {
		words = append(words, l.hardware.Architecture)
	}
	count := func(least int64, unit string) {
		if least > 0 {
			words = append(words, fmt.Sprintf("%d %s", least, unit))
		}
	}
	count(int64(l.hardware.MinProcessors), "processors")
	count(l.hardware.MinMemoryMiB, "MiB of memory")
	count(l.hardware.MinDiskGiB, "GiB of disk")
	return strings.Join(words, ", ")
}

// met reports whether a host is within the limits: it has the labels, and its agent reports the hardware. Placement
// decides in the same way.
func (l limits) met(host *infrav1.CapstanHost) bool {
	if _, enrolled := host.Labels[infrav1.EnrolledLabel]; enrolled && l.local {
		return false
	}
	if l.selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(l.selector)
		if err != nil || !selector.Matches(labels.Set(host.Labels)) {
			return false
		}
	}
	return l.hardware.MetBy(host.Status.Agent)
}

// limit records limits that a need has, and returns their name.
func (s *snapshot) limit(l limits) string {
	name := l.name()
	if name != "" {
		s.limits[name] = l
	}
	return name
}

// inventory returns the hosts. Each host lists which of the limits recorded so far it meets.
func (s *snapshot) inventory() []Host {
	hosts := slices.Clone(s.hosts)
	for i := range hosts {
		for name, l := range s.limits {
			if l.met(&s.objects[i]) {
				hosts[i].Meets = append(hosts[i].Meets, name)
			}
		}
		slices.Sort(hosts[i].Meets)
	}
	return hosts
}

// controlPlaneLimits returns the name of the limits of a Cluster's control plane machines.
func (s *snapshot) controlPlaneLimits(
	ctx context.Context, cluster *clusterv1.Cluster, class *clusterv1.ClusterClass,
) (string, error) {
	topology := &cluster.Spec.Topology
	return s.classLimits(ctx, class, class.Spec.ControlPlane.MachineInfrastructure.TemplateRef, controlPlaneHosts,
		topology.ControlPlane.Variables.Overrides, topology.Variables)
}

// classLimits returns the name of the limits of machines whose template is in a ClusterClass. These are the limits of
// the template; but if the variable has labels, they replace the template's selector. classLimits looks up the variable
// in the lists in turn, and uses the first list that contains it.
func (s *snapshot) classLimits(
	ctx context.Context, class *clusterv1.ClusterClass, ref clusterv1.ClusterClassTemplateReference, variable string,
	lists ...[]clusterv1.ClusterVariable,
) (string, error) {
	l, err := s.templateLimits(ctx, client.ObjectKey{Namespace: class.Namespace, Name: ref.Name}, ref.Kind)
	if err != nil {
		return "", err
	}
	if l.local, err = s.isLocal(ctx, class); err != nil {
		return "", err
	}
	for _, list := range lists {
		i := slices.IndexFunc(list, func(v clusterv1.ClusterVariable) bool { return v.Name == variable })
		if i < 0 {
			continue
		}
		var wanted map[string]string
		if json.Unmarshal(list[i].Value.Raw, &wanted) == nil && len(wanted) > 0 { // else it is another class's variable
			l.selector = &metav1.LabelSelector{MatchLabels: wanted}
		}
		break
	}
	return s.limit(l), nil
}

// templateLimits returns the limits in a CapstanMachineTemplate, which is read at most once. Templates of another kind,
// or that don't exist, have no limits.
func (s *snapshot) templateLimits(ctx context.Context, key client.ObjectKey, kind string) (limits, error) {
	if l, ok := s.templates[key]; ok || kind != machineTemplate {
		return l, nil
	}
	template := &infrav1.CapstanMachineTemplate{}
	if err := s.reader.Get(ctx, key, template); err != nil && !apierrors.IsNotFound(err) {
		return limits{}, fmt.Errorf("reading CapstanMachineTemplate %s: %w", key, err)
	}
	spec := &template.Spec.Template.Spec
	l := limits{selector: spec.HostSelector, hardware: spec.HostRequirements}
	s.templates[key] = l
	return l, nil
}

// isLocal reports whether Clusters of a class get a balancer of the management plane. The template that says so is read
// at most once.
func (s *snapshot) isLocal(ctx context.Context, class *clusterv1.ClusterClass) (bool, error) {
	if class == nil || class.Spec.Infrastructure.TemplateRef.Kind != clusterTemplate {
		return false, nil
	}
	key := client.ObjectKey{Namespace: class.Namespace, Name: class.Spec.Infrastructure.TemplateRef.Name}
	if local, ok := s.local[key]; ok {
		return local, nil
	}
	template := &infrav1.CapstanClusterTemplate{}
	if err := s.reader.Get(ctx, key, template); err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("reading CapstanClusterTemplate %s: %w", key, err)
	}
	s.local[key] = template.Spec.Template.Spec.LoadBalancer.Type == infrav1.LoadBalancerLocal
	return s.local[key], nil
}

// The kinds of templates that have limits.
const (
	machineTemplate = "CapstanMachineTemplate"
	clusterTemplate = "CapstanClusterTemplate"
)
