// Package migration rewrites stored objects after an upgrade, so that all of them are stored in the current storage
// version and older API versions can be removed one day. Cluster API's controller for this purpose does the work when a
// CustomResourceDefinition has changed.
package migration

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/controllers/crdmigrator"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions;customresourcedefinitions/status,resourceNames=capstanclusters.infrastructure.capstan.dev;capstanclustertemplates.infrastructure.capstan.dev;capstanhosts.infrastructure.capstan.dev;capstanmachines.infrastructure.capstan.dev;capstanmachinetemplates.infrastructure.capstan.dev,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.capstan.dev,resources=capstanclustertemplates;capstanmachinetemplates,verbs=get;list;patch

// Kinds returns our kinds and how to rewrite their objects. Objects with a status are rewritten through the status
// subresource, where no admission webhook of ours interferes.
func Kinds() map[client.Object]crdmigrator.ByObjectConfig {
	byStatus, bySpec := crdmigrator.ByObjectConfig{UseStatusForStorageVersionMigration: true}, crdmigrator.ByObjectConfig{}
	return map[client.Object]crdmigrator.ByObjectConfig{
		&infrav1.CapstanCluster{}:         byStatus,
		&infrav1.CapstanClusterTemplate{}: bySpec,
		&infrav1.CapstanHost{}:            byStatus,
		&infrav1.CapstanMachine{}:         byStatus,
		&infrav1.CapstanMachineTemplate{}: bySpec,
	}
}

// Setup adds the controller to the manager, for our kinds only. If the same process also migrates Cluster API's own
// kinds, pass Kinds to that controller instead, because there can be only one controller of this name.
func Setup(ctx context.Context, mgr ctrl.Manager) error {
	err := (&crdmigrator.CRDMigrator{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Config: Kinds()}).
		// Options.controller in package provider explains why the queue is off
		SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: 1, UsePriorityQueue: ptr.To(false)})
	if err != nil {
		return fmt.Errorf("adding the migration of stored objects: %w", err)
	}
	return nil
}
