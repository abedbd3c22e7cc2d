package hook

import (
	"sync"

	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

var clusterAPIVersion = runtimehooksv1.GroupVersion

// The hooks of Cluster API.
var (
	// Discovery asks an extension which handlers it has (RX-02).
	Discovery = Of(clusterAPIVersion, runtimehooksv1.Discovery)

	// BeforeClusterCreate is called before the objects of a Cluster's topology are made; it can wait (LH-05, LH-06).
	BeforeClusterCreate = Of(clusterAPIVersion, runtimehooksv1.BeforeClusterCreate)
	// AfterControlPlaneInitialized is called once, when the control plane answers for the first time (LH-08).
	AfterControlPlaneInitialized = Of(clusterAPIVersion, runtimehooksv1.AfterControlPlaneInitialized)
	// BeforeClusterUpgrade is called once, before a new version reaches anything; it can wait (LH-11, LH-12).
	BeforeClusterUpgrade = Of(clusterAPIVersion, runtimehooksv1.BeforeClusterUpgrade)
	// BeforeControlPlaneUpgrade is called before each version of the control plane; it can wait (LH-29).
	BeforeControlPlaneUpgrade = Of(clusterAPIVersion, runtimehooksv1.BeforeControlPlaneUpgrade)
	// AfterControlPlaneUpgrade is called after each version of the control plane; it can wait (LH-17, LH-18).
	AfterControlPlaneUpgrade = Of(clusterAPIVersion, runtimehooksv1.AfterControlPlaneUpgrade)
	// BeforeWorkersUpgrade is called before workers take a version; it can wait (LH-29).
	BeforeWorkersUpgrade = Of(clusterAPIVersion, runtimehooksv1.BeforeWorkersUpgrade)
	// AfterWorkersUpgrade is called after workers have taken a version; it can wait (LH-29).
	AfterWorkersUpgrade = Of(clusterAPIVersion, runtimehooksv1.AfterWorkersUpgrade)
	// AfterClusterUpgrade is called when everything has the new version; waiting holds the next upgrade (LH-21, LH-22).
	AfterClusterUpgrade = Of(clusterAPIVersion, runtimehooksv1.AfterClusterUpgrade)
	// BeforeClusterDelete is called before a Cluster's topology is deleted; it can wait (LH-24, LH-25).
	BeforeClusterDelete = Of(clusterAPIVersion, runtimehooksv1.BeforeClusterDelete)

	// GeneratePatches changes templates of a topology; called by handler name from a ClusterClass.
	GeneratePatches = Of(clusterAPIVersion, runtimehooksv1.GeneratePatches)
	// ValidateTopology checks a topology after all patches; called by handler name from a ClusterClass.
	ValidateTopology = Of(clusterAPIVersion, runtimehooksv1.ValidateTopology)
	// DiscoverVariables gives the variables that a ClusterClass's external patches use; called by handler name from it.
	DiscoverVariables = Of(clusterAPIVersion, runtimehooksv1.DiscoverVariables)
	// GenerateUpgradePlan gives the versions between two versions; called by handler name from a ClusterClass.
	GenerateUpgradePlan = Of(clusterAPIVersion, runtimehooksv1.GenerateUpgradePlan)

	// CanUpdateMachine asks which changes of a Machine can be made in place.
	CanUpdateMachine = Of(clusterAPIVersion, runtimehooksv1.CanUpdateMachine)
	// CanUpdateMachineSet asks which changes of a MachineSet can be made in place.
	CanUpdateMachineSet = Of(clusterAPIVersion, runtimehooksv1.CanUpdateMachineSet)
	// UpdateMachine changes a Machine in place; it can wait, which means that it goes on.
	UpdateMachine = Of(clusterAPIVersion, runtimehooksv1.UpdateMachine)
)

// introduced says since when Cluster API has each hook.
var introduced = []struct {
	release Release
	hooks   []described
}{
	{"v1.2", []described{
		Discovery, BeforeClusterCreate, AfterControlPlaneInitialized, BeforeClusterUpgrade, AfterControlPlaneUpgrade,
		AfterClusterUpgrade,
		BeforeClusterDelete, GeneratePatches, ValidateTopology,
	}},
	{"v1.4", []described{DiscoverVariables}},
	{"v1.12", []described{
		BeforeControlPlaneUpgrade, BeforeWorkersUpgrade, AfterWorkersUpgrade, GenerateUpgradePlan,
		CanUpdateMachine, CanUpdateMachineSet, UpdateMachine,
	}},
}

type described interface{ Descriptor() *Descriptor }

// publishedFacts takes what Cluster API says about its hooks in its own catalog.
func publishedFacts() []Registration {
	published := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(published); err != nil {
		panic(err) // A constant table of Cluster API; our test builds it.
	}
	meta := map[ID]*runtimecatalog.HookMeta{}
	for gvh, d := range published.AllKnownHooks() {
		meta[ID{Group: gvh.Group, Version: gvh.Version, Name: gvh.Hook}] = d.Metadata
	}
	var all []Registration
	for _, since := range introduced {
		for _, h := range since.hooks {
			facts := Facts{Introduced: since.release}
			if m := meta[h.Descriptor().ID]; m != nil {
				facts.Summary, facts.Description, facts.Tags, facts.Singleton = m.Summary, m.Description, m.Tags, m.Singleton
			}
			all = append(all, About(h, facts))
		}
	}
	return all
}

// ClusterAPIHooks lists the hooks of Cluster API and what is known about them, to build a catalog that holds them and
// others.
func ClusterAPIHooks() []Registration {
	return append(publishedFacts(),
		Discovery,
		BeforeClusterCreate, AfterControlPlaneInitialized,
		BeforeClusterUpgrade, BeforeControlPlaneUpgrade, AfterControlPlaneUpgrade,
		BeforeWorkersUpgrade, AfterWorkersUpgrade, AfterClusterUpgrade,
		BeforeClusterDelete,
		GeneratePatches, ValidateTopology, DiscoverVariables, GenerateUpgradePlan,
		CanUpdateMachine, CanUpdateMachineSet, UpdateMachine,
	)
}

// ClusterAPI gives the catalog of Cluster API's hooks.
func ClusterAPI() *Catalog { return clusterAPI() }

var clusterAPI = sync.OnceValue(func() *Catalog {
	catalog, err := NewCatalog(ClusterAPIHooks()...)
	if err != nil {
		panic(err) // A constant table of this package; its test builds it.
	}
	return catalog
})
