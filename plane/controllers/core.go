package controllers

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/reconcilers/cluster"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterclass"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterresourceset"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterresourcesetbinding"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinedeployment"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinehealthcheck"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinepool"
	"sigs.k8s.io/cluster-api/core/reconcilers/machineset"
	topologycluster "sigs.k8s.io/cluster-api/core/reconcilers/topology/cluster"
	topologymachinedeployment "sigs.k8s.io/cluster-api/core/reconcilers/topology/machinedeployment"
	topologymachineset "sigs.k8s.io/cluster-api/core/reconcilers/topology/machineset"
	"sigs.k8s.io/cluster-api/feature"

	"github.com/capstan-dev/capstan/runtime/extensionconfig"
)

// Grace periods, with upstream's values.
const (
	connectionGrace = 50 * time.Second
	conditionsGrace = 5 * time.Minute
)

// core adds the reconcilers of Cluster API itself.
func (s *setter) core(ctx context.Context) error {
	c, r := s.GetClient(), s.GetAPIReader()
	for kind, err := range map[string]error{
		"Cluster": (&cluster.Reconciler{
			Client: c, APIReader: r, ClusterCache: s.deps.ClusterCache, RemoteConnectionGracePeriod: connectionGrace,
		}).SetupWithManager(ctx, s.Manager, s.options()),
		"Machine": (&machine.Reconciler{
			Client: c, APIReader: r, ClusterCache: s.deps.ClusterCache, RuntimeClient: s.deps.RuntimeClient,
			RemoteConditionsGracePeriod: conditionsGrace,
		}).SetupWithManager(ctx, s.Manager, s.options()),
		"MachineSet": (&machineset.Reconciler{
			Client: c, APIReader: r, ClusterCache: s.deps.ClusterCache,
			PreflightChecks: sets.New(clusterv1.MachineSetPreflightCheckAll),
		}).SetupWithManager(ctx, s.Manager, s.options()),
		"MachineDeployment": (&machinedeployment.Reconciler{
			Client: c, APIReader: r, RuntimeClient: s.deps.RuntimeClient,
		}).SetupWithManager(ctx, s.Manager, s.options()),
		"MachineHealthCheck": (&machinehealthcheck.Reconciler{
			Client: c, ClusterCache: s.deps.ClusterCache,
		}).SetupWithManager(ctx, s.Manager, s.options()),
		"ClusterResourceSet": (&clusterresourceset.Reconciler{
			Client: c, ClusterCache: s.deps.ClusterCache,
		}).SetupWithManager(ctx, s.Manager, s.options(), s.secretNames),
		"ClusterResourceSetBinding": (&clusterresourcesetbinding.Reconciler{
			Client: c,
		}).SetupWithManager(ctx, s.Manager, s.options()),
	} {
		if err != nil {
			return fmt.Errorf("adding the controller of %s: %w", kind, err)
		}
	}
	return nil
}

// pools adds the reconciler of MachinePools if their gate is on.
func (s *setter) pools(ctx context.Context) error {
	if !s.gates.On(feature.MachinePool) {
		return nil
	}
	if err := (&machinepool.Reconciler{
		Client: s.GetClient(), APIReader: s.GetAPIReader(), ClusterCache: s.deps.ClusterCache,
	}).SetupWithManager(ctx, s.Manager, s.options()); err != nil {
		return fmt.Errorf("adding the controller of MachinePool: %w", err)
	}
	return nil
}

// extensions adds the reconciler of ExtensionConfigs if their gate is on (rule RC-24 of the Runtime SDK contract). The
// reconciler is Capstan's own instead of upstream's; see docs/adr. Upstream's manager of the kubeadm control plane has
// a second, read-only reconciler with its own registry; here all controllers share one.
func (s *setter) extensions(context.Context) error {
	if !s.gates.On(feature.RuntimeSDK) {
		return nil
	}
	if err := (&extensionconfig.Reconciler{
		Client: s.GetClient(), APIReader: s.GetAPIReader(), Runtime: s.deps.RuntimeClient, SecretNames: s.secretNames,
	}).SetupWithManager(s.Manager, s.options()); err != nil {
		return fmt.Errorf("adding the controller of ExtensionConfig: %w", err)
	}
	return nil
}

// topology adds the reconcilers of ClusterClasses if their gate is on.
func (s *setter) topology(ctx context.Context) error {
	if !s.gates.On(feature.ClusterTopology) {
		return nil
	}
	c, r := s.GetClient(), s.GetAPIReader()
	for kind, err := range map[string]error{
		"ClusterClass": (&clusterclass.Reconciler{
			Client: c, RuntimeClient: s.deps.RuntimeClient,
		}).SetupWithManager(ctx, s.Manager, s.options()),
		"Cluster": (&topologycluster.Reconciler{
			Client: c, APIReader: r, RuntimeClient: s.deps.RuntimeClient, ClusterCache: s.deps.ClusterCache,
		}).SetupWithManager(ctx, s.Manager, s.options()),
		"MachineDeployment": (&topologymachinedeployment.Reconciler{
			Client: c, APIReader: r,
		}).SetupWithManager(ctx, s.Manager, s.options()),
		"MachineSet": (&topologymachineset.Reconciler{
			Client: c, APIReader: r,
		}).SetupWithManager(ctx, s.Manager, s.options()),
	} {
		if err != nil {
			return fmt.Errorf("adding the topology controller of %s: %w", kind, err)
		}
	}
	return nil
}
