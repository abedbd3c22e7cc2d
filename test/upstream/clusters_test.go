package upstream

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("ClusterClassChanges", Label("ClusterClassChanges"), func() {
	e2e.ClusterClassChangesSpec(ctx, func() e2e.ClusterClassChangesSpecInput {
		return e2e.ClusterClassChangesSpecInput{
			E2EConfig: config, ClusterctlConfigPath: clusterctlConfig, BootstrapClusterProxy: bootstrap,
			ArtifactFolder: *artifacts, InfrastructureProvider: ptr.To(infrastructure), Flavor: "topology",
			ModifyControlPlaneFields: map[string]any{"spec.kubeadmConfigSpec.verbosity": int64(4)},
			ModifyMachineDeploymentBootstrapConfigTemplateFields: map[string]any{
				"spec.template.spec.verbosity": int64(4),
			},
			// A selector that all hosts match.
			ModifyMachineDeploymentInfrastructureMachineTemplateFields: map[string]any{
				"spec.template.spec.hostSelector.matchExpressions": []any{
					map[string]any{"key": "upstream-e2e", "operator": "DoesNotExist"},
				},
			},
		}
	})
})

var _ = Describe("ClusterClassRollout", Label("ClusterClassRollout"), func() {
	e2e.ClusterClassRolloutSpec(ctx, func() e2e.ClusterClassRolloutSpecInput {
		return e2e.ClusterClassRolloutSpecInput{
			E2EConfig: config, ClusterctlConfigPath: clusterctlConfig, BootstrapClusterProxy: bootstrap,
			ArtifactFolder: *artifacts, InfrastructureProvider: ptr.To(infrastructure), Flavor: "topology-taints",
			FilterMetadataBeforeValidation: func(object client.Object) clusterv1.ObjectMeta {
				return clusterv1.ObjectMeta{Labels: object.GetLabels(), Annotations: object.GetAnnotations()}
			},
		}
	})
})

var _ = Describe("ClusterDeletion", Label("ClusterDeletion"), func() {
	e2e.ClusterDeletionSpec(ctx, func() e2e.ClusterDeletionSpecInput {
		return e2e.ClusterDeletionSpecInput{
			E2EConfig: config, ClusterctlConfigPath: clusterctlConfig, BootstrapClusterProxy: bootstrap,
			ArtifactFolder: *artifacts, InfrastructureProvider: ptr.To(infrastructure), Flavor: ptr.To("topology"),
			ControlPlaneMachineCount: ptr.To[int64](3),
			ClusterDeletionPhases: []e2e.ClusterDeletionPhase{
				phase([]string{"MachineDeployment", "MachineSet"}, "Machine", "MachineDeployment", "MachineSet"),
				phase([]string{"KubeadmControlPlane"}, "Machine", "KubeadmControlPlane"),
				phase([]string{"CapstanCluster"}, "CapstanCluster"),
			},
		}
	})
})

// phase returns a phase of a deletion, which removes the objects of these kinds, and the Machines that objects of the
// kinds in owners own. Objects of the blocking kind delay the phase.
func phase(kinds []string, blocking string, owners ...string) e2e.ClusterDeletionPhase {
	return e2e.ClusterDeletionPhase{
		ObjectFilter: func(object corev1.ObjectReference, refs []metav1.OwnerReference) bool {
			owned := slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool {
				return slices.Contains(owners, r.Kind)
			})
			return slices.Contains(kinds, object.Kind) || object.Kind == "Machine" && owned
		},
		BlockingObjectFilter: func(object corev1.ObjectReference, _ []metav1.OwnerReference) bool {
			return object.Kind == blocking
		},
	}
}

var _ = Describe("NodeDrain", Label("NodeDrain"), func() {
	e2e.NodeDrainTimeoutSpec(ctx, func() e2e.NodeDrainTimeoutSpecInput {
		return e2e.NodeDrainTimeoutSpecInput{
			E2EConfig: config, ClusterctlConfigPath: clusterctlConfig, BootstrapClusterProxy: bootstrap,
			ArtifactFolder: *artifacts, InfrastructureProvider: ptr.To(infrastructure), Flavor: ptr.To("topology"),
			VerifyNodeVolumeDetach: true, CreateAdditionalResources: attachVolumes,
		}
	})
})

// attachVolumes creates a VolumeAttachment for each Node, as upstream's suite does. It delays the deletion of the
// Node's Machine.
func attachVolumes(ctx context.Context, proxy framework.ClusterProxy, cluster *clusterv1.Cluster) {
	c := proxy.GetWorkloadCluster(ctx, cluster.Namespace, cluster.Name).GetClient()
	nodes := &corev1.NodeList{}
	Expect(c.List(ctx, nodes)).To(Succeed())
	for _, node := range nodes.Items {
		attachment := &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "va-" + node.Name, Finalizers: []string{"test.cluster.x-k8s.io/block"}},
			Spec: storagev1.VolumeAttachmentSpec{
				Attacher: "manual", NodeName: node.Name,
				Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("foo")},
			},
		}
		Expect(c.Create(ctx, attachment)).To(Succeed())
		attachment.Status.Attached = true
		Expect(c.Status().Update(ctx, attachment)).To(Succeed())
	}
}

var _ = Describe("Scale", Label("Scale"), func() {
	e2e.ScaleSpec(ctx, func() e2e.ScaleSpecInput {
		return e2e.ScaleSpecInput{
			E2EConfig: config, ClusterctlConfigPath: clusterctlConfig, BootstrapClusterProxy: bootstrap,
			ArtifactFolder: *artifacts, InfrastructureProvider: ptr.To(infrastructure),
			Flavor:       ptr.To("topology-scale"),
			ClusterCount: ptr.To[int64](10), Concurrency: ptr.To[int64](5), ControlPlaneMachineCount: ptr.To[int64](1),
			MachineDeploymentCount: ptr.To[int64](1), WorkerPerMachineDeploymentCount: ptr.To[int64](1),
			AdditionalClusterClassCount: ptr.To[int64](4), ClusterClassName: "capstan-local", SkipUpgrade: true,
		}
	})
})
