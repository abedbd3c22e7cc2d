package controllers

import (
	"context"
	"fmt"
	"maps"

	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/crdmigrator"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/capstan-dev/capstan/provider/migration"
)

// migrator adds the controller that rewrites stored objects after an update of the CustomResourceDefinitions. Each of
// upstream's managers has one for its own types; here there can be only one with that name, for all types.
func (s *setter) migrator(ctx context.Context) error {
	byStatus := crdmigrator.ByObjectConfig{UseStatusForStorageVersionMigration: true}
	bySpec := crdmigrator.ByObjectConfig{}
	kinds := map[client.Object]crdmigrator.ByObjectConfig{
		&addonsv1.ClusterResourceSet{}:                byStatus,
		&addonsv1.ClusterResourceSetBinding{}:         bySpec,
		&bootstrapv1.KubeadmConfig{}:                  byStatus,
		&bootstrapv1.KubeadmConfigTemplate{}:          bySpec,
		&clusterv1.Cluster{}:                          byStatus,
		&clusterv1.Machine{}:                          byStatus,
		&clusterv1.MachineDeployment{}:                byStatus,
		&clusterv1.MachineDrainRule{}:                 bySpec,
		&clusterv1.MachineHealthCheck{}:               byStatus,
		&clusterv1.MachineSet{}:                       byStatus,
		&controlplanev1.KubeadmControlPlane{}:         byStatus,
		&controlplanev1.KubeadmControlPlaneTemplate{}: bySpec,
		&ipamv1.IPAddress{}:                           bySpec,
		&ipamv1.IPAddressClaim{}:                      byStatus,
	}
	// If a gate is off, webhooks reject writes of its objects.
	if s.gates.On(feature.ClusterTopology) {
		kinds[&clusterv1.ClusterClass{}] = byStatus
	}
	if s.gates.On(feature.MachinePool) {
		kinds[&clusterv1.MachinePool{}] = byStatus
	}
	if s.gates.On(feature.RuntimeSDK) {
		kinds[&runtimev1.ExtensionConfig{}] = byStatus
	}
	maps.Copy(kinds, migration.Kinds())
	err := (&crdmigrator.CRDMigrator{Client: s.GetClient(), APIReader: s.GetAPIReader(), Config: kinds}).
		SetupWithManager(ctx, s.Manager, controller.Options{MaxConcurrentReconciles: 1})
	if err != nil {
		return fmt.Errorf("adding the migration of stored objects: %w", err)
	}
	return nil
}
