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

	// BeforeClusterCreate is called before the objects of a Cluster's topology are created; it can block (LH-05, LH-06).
	BeforeClusterCreate = Of(clusterAPIVersion, runtimehooksv1.BeforeClusterCreate)
	// AfterControlPlaneInitialized is called once, when the control plane is reachable for the first time (LH-08).
	AfterControlPlaneInitialized = Of(clusterAPIVersion, runtimehooksv1.AfterControlPlaneInitialized)
	// BeforeClusterUpgrade is called once, before anything is upgraded to a new version; it can block (LH-11, LH-12).
	BeforeClusterUpgrade = Of(clusterAPIVersion, runtimehooksv1.BeforeClusterUpgrade)
	// BeforeControlPlaneUpgrade is called before the control plane moves to each version; it can block (LH-29).
	BeforeControlPlaneUpgrade = Of(clusterAPIVersion, runtimehooksv1.BeforeControlPlaneUpgrade)
	// AfterControlPlaneUpgrade is called after the control plane has reached each version; it can block (LH-17, LH-18).
	AfterControlPlaneUpgrade = Of(clusterAPIVersion, runtimehooksv1.AfterControlPlaneUpgrade)
	// BeforeWorkersUpgrade is called before workers move to a version; it can block (LH-29).
	BeforeWorkersUpgrade = Of(clusterAPIVersion, runtimehooksv1.BeforeWorkersUpgrade)
	// AfterWorkersUpgrade is called after workers have reached a version; it can block (LH-29).
	AfterWorkersUpgrade = Of(clusterAPIVersion, runtimehooksv1.AfterWorkersUpgrade)
	// AfterClusterUpgrade is called when everything has the new version; blocking holds the next upgrade (LH-21, LH-22).
	AfterClusterUpgrade = Of(clusterAPIVersion, runtimehooksv1.AfterClusterUpgrade)
	// BeforeClusterDelete is called before a Cluster's topology is deleted; it can block (LH-24, LH-25).
	BeforeClusterDelete = Of(clusterAPIVersion, runtimehooksv1.BeforeClusterDelete)

	// GeneratePatches changes the templates of a topology. A ClusterClass names its handler.
	GeneratePatches = Of(clusterAPIVersion, runtimehooksv1.GeneratePatches)
	// ValidateTopology checks a topology after all patches. A ClusterClass names its handler.
	ValidateTopology = Of(clusterAPIVersion, runtimehooksv1.ValidateTopology)
	// DiscoverVariables returns the variables that a ClusterClass's external patches use. The ClusterClass names its
	// handler.
	DiscoverVariables = Of(clusterAPIVersion, runtimehooksv1.DiscoverVariables)
	// GenerateUpgradePlan returns the versions between two versions. A ClusterClass names its handler.
	GenerateUpgradePlan = Of(clusterAPIVersion, runtimehooksv1.GenerateUpgradePlan)

	// CanUpdateMachine asks which changes of a Machine can be made in place.
	CanUpdateMachine = Of(clusterAPIVersion, runtimehooksv1.CanUpdateMachine)
	// CanUpdateMachineSet asks which changes of a MachineSet can be made in place.
	CanUpdateMachineSet = Of(clusterAPIVersion, runtimehooksv1.CanUpdateMachineSet)
	// UpdateMachine changes a Machine in place. It can wait, which means that the update is still in progress.
	UpdateMachine = Of(clusterAPIVersion, runtimehooksv1.UpdateMachine)
)

// introduced lists the Cluster API release that introduced each hook.
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

// publishedFacts reads the facts about hooks from Cluster API's own catalog.
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

// ClusterAPIHooks lists Cluster API's hooks and the facts about them, for catalogs that hold them and others.
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

// ClusterAPI returns the catalog of Cluster API's hooks.
func ClusterAPI() *Catalog { return clusterAPI() }

var clusterAPI = sync.OnceValue(func() *Catalog {
	catalog, err := NewCatalog(ClusterAPIHooks()...)
	if err != nil {
		panic(err) // A constant table of this package; its test builds it.
	}
	return catalog
})
