package capacity

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/paging"
	"github.com/capstan-dev/capstan/extension/part"
	"github.com/capstan-dev/capstan/extension/workload"
)

// upgradeControlPlane holds the upgrade of a control plane if there are no hosts for its surge, because the upgrade
// would stop halfway for lack of one machine.
func (g *gate) upgradeControlPlane(
	ctx context.Context, cluster *clusterv1.Cluster, version string,
) (part.Answer, error) {
	words := Words{Subject: "upgrade of the control plane", Remedy: "set maxSurge of the control plane to 0"}
	return g.rollout(ctx, cluster, words, func(s *snapshot) ([][]Need, error) {
		class, err := s.class(ctx, cluster)
		if err != nil || class == nil || !isTemplateOurs(class.Spec.ControlPlane.MachineInfrastructure.TemplateRef) {
			return nil, err
		}
		limits, err := s.controlPlaneLimits(ctx, cluster, class)
		if err != nil {
			return nil, err
		}
		surge, err := g.controlPlaneSurge(ctx, cluster)
		return Surge([]Need{{Version: version, Limits: limits, Hosts: surge}}, 1), err
	})
}

// upgradeWorkers holds the upgrade of workers if there are no hosts for its surge.
func (g *gate) upgradeWorkers(ctx context.Context, cluster *clusterv1.Cluster, version string) (part.Answer, error) {
	words := Words{Subject: "upgrade of workers", Remedy: "set maxSurge of the MachineDeployments to 0"}
	return g.rollout(ctx, cluster, words, func(s *snapshot) ([][]Need, error) {
		class, err := s.class(ctx, cluster)
		if err != nil {
			return nil, err
		}
		groups, err := s.workersSurge(ctx, cluster, class, version)
		// 0 means the default, one.
		atOnce, _ := strconv.Atoi(cluster.Annotations[clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation])
		return Surge(groups, atOnce), err
	})
}

// rollout holds a Cluster unless each set of needs fits by itself, in addition to what is promised.
func (g *gate) rollout(
	ctx context.Context, cluster *clusterv1.Cluster, words Words, needed func(*snapshot) ([][]Need, error),
) (answer part.Answer, err error) {
	if err := g.begin(ctx); err != nil {
		return answer, err
	}
	defer g.end()
	snapshot, err := read(ctx, g.reader, cluster.Namespace)
	if err != nil {
		return answer, err
	}
	sets, err := needed(snapshot)
	if err != nil || len(sets) == 0 {
		return answer, err
	}
	g.forget()
	others, err := snapshot.others(ctx, cluster, g.isAdmitted)
	if err != nil {
		return answer, err
	}
	class, err := snapshot.class(ctx, cluster)
	if err != nil {
		return answer, err
	}
	var besides []Need
	if class != nil {
		if besides, err = snapshot.needs(ctx, cluster, class); err != nil {
			return answer, err
		}
	}
	bound, err := snapshot.bound(ctx, cluster, class)
	if err != nil {
		return answer, err
	}
	hosts := snapshot.inventory()
	words.Promised = "promised to machines that wait for theirs"
	for i, set := range sets {
		// The Cluster already exists and takes precedence over those that do not, so it counts as Admitted.
		decision := Decide(hosts, others,
			Cluster{Name: cluster.Name, Admitted: true, Needs: set, Bound: bound, Besides: besides, Words: words})
		if !decision.Fits {
			return part.Hold(retryAfter, decision.Finding), nil
		}
		if i == 0 {
			answer = part.Pass(decision.Finding)
		}
	}
	return answer, nil
}

// controlPlaneSurge returns how many additional machines the control plane has during a rollout. Default: 1.
func (g *gate) controlPlaneSurge(ctx context.Context, cluster *clusterv1.Cluster) (int, error) {
	ref := cluster.Spec.ControlPlaneRef
	if ref.APIGroup != workload.KubeadmControlPlane.Group || ref.Kind != workload.KubeadmControlPlane.Kind {
		return 1, nil
	}
	controlPlane := &unstructured.Unstructured{}
	controlPlane.SetGroupVersionKind(workload.KubeadmControlPlane)
	err := g.reader.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: ref.Name}, controlPlane)
	if apierrors.IsNotFound(err) {
		return 1, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading KubeadmControlPlane %s: %w", ref.Name, err)
	}
	written, found, err := unstructured.NestedFieldNoCopy(controlPlane.Object,
		"spec", "rollout", "strategy", "rollingUpdate", "maxSurge")
	if err != nil || !found {
		return 1, nil
	}
	if surge, err := strconv.Atoi(fmt.Sprint(written)); err == nil {
		return surge, nil
	}
	return 1, nil
}

// workersSurge returns the surge of each of a Cluster's MachineDeployments that has Capstan machines of another
// version.
func (s *snapshot) workersSurge(
	ctx context.Context, cluster *clusterv1.Cluster, class *clusterv1.ClusterClass, version string,
) ([]Need, error) {
	var outdated []clusterv1.MachineDeployment
	seen := 0
	err := paging.List(ctx, source(s.reader, cluster.Namespace, "MachineDeployments"),
		func() *clusterv1.MachineDeploymentList { return &clusterv1.MachineDeploymentList{} },
		func(list *clusterv1.MachineDeploymentList) int {
			seen += len(list.Items)
			for i := range list.Items {
				md := &list.Items[i]
				machine := &md.Spec.Template.Spec
				ours := md.Spec.ClusterName == cluster.Name && machine.InfrastructureRef.APIGroup == infrav1.GroupVersion.Group
				if ours && machine.Version != version {
					outdated = append(outdated, *md)
				}
			}
			return seen
		})
	if err != nil {
		return nil, err
	}
	var groups []Need
	for i := range outdated {
		md := &outdated[i]
		machine := &md.Spec.Template.Spec
		key := client.ObjectKey{Namespace: md.Namespace, Name: machine.InfrastructureRef.Name}
		limits, err := s.templateLimits(ctx, key, machine.InfrastructureRef.Kind)
		if err != nil {
			return nil, err
		}
		if limits.local, err = s.isLocal(ctx, class); err != nil {
			return nil, err
		}
		need := Need{Zone: machine.FailureDomain, Version: version, Limits: s.limit(limits), Hosts: surgeOf(md)}
		groups = append(groups, need)
	}
	return groups, nil
}

// surgeOf returns how many additional machines a MachineDeployment has during a rollout.
func surgeOf(md *clusterv1.MachineDeployment) int {
	strategy, replicas := md.Spec.Rollout.Strategy, replicas(md.Spec.Replicas, nil)
	if replicas == 0 || strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType {
		return 0 // it rolls nothing out
	}
	if strategy.RollingUpdate.MaxSurge == nil {
		return 1
	}
	surge, err := intstr.GetScaledValueFromIntOrPercent(strategy.RollingUpdate.MaxSurge, replicas, true)
	if err != nil {
		return 1 // the API server rejects such a value
	}
	return surge
}
