package main

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
)

// sources are the sources of flavors.
type sources struct {
	// ours holds Capstan's templates.
	ours fs.FS
	// theirs is the directory of Cluster API's templates for its own provider, in the module of its tests.
	theirs fs.FS
}

// files reads documents and applies each file as patches to the files before it.
func (s sources) files(system fs.FS, names ...string) (documents []document, err error) {
	for _, name := range names {
		data, err := fs.ReadFile(system, name)
		if err != nil {
			return nil, err
		}
		parsed, err := parse(data)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		documents = merge(documents, parsed)
	}
	return documents, nil
}

// addons is a ClusterResourceSet that puts the CNI variable's file into clusters with a label. Each flavor contains
// this file.
const addons = "bases/crs.yaml"

// templates creates all template files that the specs use, by file name.
func (s sources) templates() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(makers)) {
		documents, err := makers[name](s)
		if err != nil {
			return nil, fmt.Errorf("making %s: %w", name, err)
		}
		hollow(documents)
		if files[name], err = format(documents); err != nil {
			return nil, fmt.Errorf("making %s: %w", name, err)
		}
	}
	return files, nil
}

// makers create the files. If a file of Cluster API changes its plain cluster, the maker changes ours in the same way.
var makers = map[string]func(sources) ([]document, error){
	"cluster-template.yaml": func(s sources) ([]document, error) { return s.plain() },
	"cluster-template-md-remediation.yaml": func(s sources) ([]document, error) {
		return s.plain("cluster-template-md-remediation/md.yaml", "cluster-template-md-remediation/mhc.yaml")
	},
	"cluster-template-kcp-md-taints.yaml": func(s sources) ([]document, error) {
		return s.plain(
			"cluster-template-kcp-md-taints/md-taints.yaml",
			"cluster-template-kcp-md-taints/kcp-taints.yaml",
		)
	},
	"cluster-template-kcp-remediation.yaml": sources.kcpRemediation,
	"cluster-template-kcp-adoption.yaml":    sources.kcpAdoption,
	"cluster-template-topology.yaml":        func(s sources) ([]document, error) { return s.topology(class) },
	"cluster-template-topology-kcp-only.yaml": func(s sources) ([]document, error) {
		return withoutWorkers(s.topology(classWithoutWorkers))
	},
	"cluster-template-topology-no-workers.yaml": func(s sources) ([]document, error) {
		return withoutWorkers(s.topology(class))
	},
	"cluster-template-topology-taints.yaml": sources.topologyTaints,
	"cluster-template-topology-scale.yaml": func(s sources) ([]document, error) {
		return s.files(s.ours, "cluster-template-topology.yaml")
	},
	"cluster-template-topology-in-place.yaml": sources.topologyInPlace,
	"clusterclass-" + classInPlace + ".yaml":  sources.classInPlaceDocuments,
	"clusterclass-" + class + ".yaml": func(s sources) ([]document, error) {
		return s.files(s.ours, "clusterclass-capstan-local.yaml")
	},
	"clusterclass-" + classWithoutWorkers + ".yaml": sources.classWithoutWorkers,
}

const (
	class               = "capstan-local"
	classWithoutWorkers = "capstan-local-kcp-only"
)

// plain returns our cluster without a ClusterClass, changed by files of theirs.
func (s sources) plain(changes ...string) ([]document, error) {
	documents, err := s.files(s.ours, "cluster-template.yaml")
	if err != nil {
		return nil, err
	}
	patches, err := s.files(s.theirs, append([]string{addons}, changes...)...)
	if err != nil {
		return nil, err
	}
	return withAddons(merge(documents, patches))
}

// withAddons labels the Clusters for the ClusterResourceSet.
func withAddons(documents []document) ([]document, error) {
	set, err := find(documents, "ClusterResourceSet")
	if err != nil {
		return nil, err
	}
	labels, _ := set.get("spec", "clusterSelector", "matchLabels").(map[string]any)
	if len(labels) == 0 {
		return nil, fmt.Errorf("ClusterResourceSet %s selects no Cluster", set.name())
	}
	for _, d := range documents {
		if d.kind() == "Cluster" {
			for key, value := range labels {
				d.set(value, "metadata", "labels", key)
			}
		}
	}
	return documents, nil
}

// kcpRemediation returns a cluster whose machines, like theirs, ask the management cluster for a signal before they
// join.
func (s sources) kcpRemediation() ([]document, error) {
	documents, err := s.plain("cluster-template-kcp-remediation/mhc.yaml")
	if err != nil {
		return nil, err
	}
	theirs, err := s.files(s.theirs, "cluster-template-kcp-remediation/cluster-with-kcp.yaml")
	if err != nil {
		return nil, err
	}
	from, err := find(theirs, "KubeadmControlPlane")
	if err != nil {
		return nil, err
	}
	to, err := find(documents, "KubeadmControlPlane")
	if err != nil {
		return nil, err
	}
	for _, field := range []string{"files", "preKubeadmCommands"} {
		value := from.get("spec", "kubeadmConfigSpec", field)
		if value == nil {
			return nil, fmt.Errorf("their KubeadmControlPlane has no %s", field)
		}
		to.set(copyOf(value), "spec", "kubeadmConfigSpec", field)
	}
	return documents, nil
}

// topology returns a cluster of a ClusterClass, which may be in another namespace.
func (s sources) topology(class string) ([]document, error) {
	documents, err := s.files(s.ours, "cluster-template-topology.yaml")
	if err != nil {
		return nil, err
	}
	cluster, err := find(documents, "Cluster")
	if err != nil {
		return nil, err
	}
	cluster.set(map[string]any{"name": class, "namespace": "${CLUSTER_CLASS_NAMESPACE:-${NAMESPACE}}"},
		"spec", "topology", "classRef")
	patches, err := s.files(s.theirs, addons)
	if err != nil {
		return nil, err
	}
	return withAddons(merge(documents, patches))
}

// withoutWorkers removes the workers from a topology or a class.
func withoutWorkers(documents []document, err error) ([]document, error) {
	for _, d := range documents {
		switch d.kind() {
		case "Cluster":
			d.remove("spec", "topology", "workers")
		case "ClusterClass":
			d.remove("spec", "workers")
			d.remove("spec", "variables") // patches also select workers
			d.remove("spec", "patches")
		}
	}
	return documents, err
}

// classWithoutWorkers returns our class with only control planes.
func (s sources) classWithoutWorkers() ([]document, error) {
	documents, err := s.files(s.ours, "clusterclass-capstan-local.yaml")
	if err != nil {
		return nil, err
	}
	c, err := find(documents, "ClusterClass")
	if err != nil {
		return nil, err
	}
	c.set(classWithoutWorkers, "metadata", "name")
	used := map[string]bool{classWithoutWorkers: true}
	for _, path := range [][]string{
		{"spec", "infrastructure"}, {"spec", "controlPlane"}, {"spec", "controlPlane", "machineInfrastructure"},
	} {
		used[c.text(append(path, "templateRef", "name")...)] = true
	}
	documents = slices.DeleteFunc(documents, func(d document) bool { return !used[d.name()] })
	return withoutWorkers(documents, nil)
}
