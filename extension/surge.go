package extension

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/capacity"
	"github.com/capstan-dev/capstan/runtime/server"
)

// kubeadmControlPlane is the control plane whose surge can be read.
var kubeadmControlPlane = schema.GroupVersionKind{Group: controlPlaneGroup, Version: "v1beta2", Kind: "KubeadmControlPlane"}

// BeforeControlPlaneUpgrade holds the upgrade of a control plane that could not have its surge: it would stop in the middle, one machine short.
func (g *Gate) BeforeControlPlaneUpgrade(ctx context.Context, request *runtimehooksv1.BeforeControlPlaneUpgradeRequest, response *runtimehooksv1.BeforeControlPlaneUpgradeResponse) error {
	words := capacity.Words{Subject: "upgrade of the control plane", Remedy: "set maxSurge of the control plane to 0"}
	message, err := g.surge(ctx, &request.Cluster, words, func(s *snapshot) ([][]capacity.Need, error) {
		class, err := s.class(ctx, &request.Cluster)
		if err != nil || class == nil || !isTemplateOurs(class.Spec.ControlPlane.MachineInfrastructure.TemplateRef) {
			return nil, err
		}
		surge, err := g.controlPlaneSurge(ctx, &request.Cluster)
		return capacity.Surge([]capacity.Need{{Version: request.ToKubernetesVersion, Hosts: surge}}, 1), err
	})
	response.Message = message
	return err
}

// BeforeWorkersUpgrade does the same for workers.
func (g *Gate) BeforeWorkersUpgrade(ctx context.Context, request *runtimehooksv1.BeforeWorkersUpgradeRequest, response *runtimehooksv1.BeforeWorkersUpgradeResponse) error {
	words := capacity.Words{Subject: "upgrade of workers", Remedy: "set maxSurge of the MachineDeployments to 0"}
	message, err := g.surge(ctx, &request.Cluster, words, func(*snapshot) ([][]capacity.Need, error) {
		groups, err := g.workersSurge(ctx, &request.Cluster, request.ToKubernetesVersion)
		atOnce, _ := strconv.Atoi(request.Cluster.Annotations[clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation]) // 0: the default, one
		return capacity.Surge(groups, atOnce), err
	})
	response.Message = message
	return err
}

// surge waits unless each set of needs fits by itself beside what is promised.
func (g *Gate) surge(ctx context.Context, cluster *clusterv1.Cluster, words capacity.Words, needed func(*snapshot) ([][]capacity.Need, error)) (message string, err error) {
	if err := g.begin(ctx); err != nil {
		return "", err
	}
	defer g.end()
	snapshot, err := read(ctx, g.reader, cluster.Namespace)
	if err != nil {
		return "", err
	}
	sets, err := needed(snapshot)
	if err != nil || len(sets) == 0 {
		return "", err
	}
	g.forget()
	others, err := snapshot.others(ctx, cluster, g.isAdmitted)
	if err != nil {
		return "", err
	}
	class, err := snapshot.class(ctx, cluster)
	if err != nil {
		return "", err
	}
	var besides []capacity.Need
	if class != nil {
		besides = needs(cluster, class)
	}
	words.Promised = "promised to machines that wait for theirs"
	for i, set := range sets {
		// It is there and goes before Clusters that are not: Admitted.
		decision := capacity.Decide(snapshot.hosts, others, capacity.Cluster{Name: cluster.Name, Admitted: true, Needs: set, Besides: besides, Words: words})
		if !decision.Fits {
			return "", server.Wait(retryAfter, decision.Message)
		}
		if i == 0 {
			message = decision.Message
		}
	}
	return message, nil
}

// controlPlaneSurge gives how many machines more than before the control plane has during a rollout; 1 if it does not say.
func (g *Gate) controlPlaneSurge(ctx context.Context, cluster *clusterv1.Cluster) (int, error) {
	ref := cluster.Spec.ControlPlaneRef
	if ref.APIGroup != kubeadmControlPlane.Group || ref.Kind != kubeadmControlPlane.Kind {
		return 1, nil
	}
	controlPlane := &unstructured.Unstructured{}
	controlPlane.SetGroupVersionKind(kubeadmControlPlane)
	err := g.reader.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: ref.Name}, controlPlane)
	if apierrors.IsNotFound(err) {
		return 1, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading KubeadmControlPlane %s: %w", ref.Name, err)
	}
	written, found, err := unstructured.NestedFieldNoCopy(controlPlane.Object, "spec", "rollout", "strategy", "rollingUpdate", "maxSurge")
	if err != nil || !found {
		return 1, nil
	}
	if surge, err := strconv.Atoi(fmt.Sprint(written)); err == nil {
		return surge, nil
	}
	return 1, nil
}

// workersSurge gives the surge of each MachineDeployment of a Cluster whose machines are Capstan's and have another version.
func (g *Gate) workersSurge(ctx context.Context, cluster *clusterv1.Cluster, version string) ([]capacity.Need, error) {
	var groups []capacity.Need
	seen := 0
	err := pages(ctx, g.reader, cluster.Namespace, "MachineDeployments", func() *clusterv1.MachineDeploymentList { return &clusterv1.MachineDeploymentList{} },
		func(list *clusterv1.MachineDeploymentList) int {
			seen += len(list.Items)
			for i := range list.Items {
				md := &list.Items[i]
				ours := md.Spec.ClusterName == cluster.Name && md.Spec.Template.Spec.InfrastructureRef.APIGroup == infrav1.GroupVersion.Group
				if ours && md.Spec.Template.Spec.Version != version {
					groups = append(groups, capacity.Need{Zone: md.Spec.Template.Spec.FailureDomain, Version: version, Hosts: surgeOf(md)})
				}
			}
			return seen
		})
	return groups, err
}

// surgeOf gives how many machines more than before a MachineDeployment has during a rollout.
func surgeOf(md *clusterv1.MachineDeployment) int {
	strategy, replicas := md.Spec.Rollout.Strategy, replicas(md.Spec.Replicas, nil)
	if replicas == 0 || strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType {
		return 0 // nothing is rolled out
	}
	if strategy.RollingUpdate.MaxSurge == nil {
		return 1
	}
	surge, err := intstr.GetScaledValueFromIntOrPercent(strategy.RollingUpdate.MaxSurge, replicas, true)
	if err != nil {
		return 1 // the API server lets no such value through
	}
	return surge
}
