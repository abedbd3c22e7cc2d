package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// part is an object that belongs to a topology, with the fields that the tests use.
type part struct {
	Kind     string
	Metadata struct {
		Name, UID, DeletionTimestamp string
		Generation                   int64
		Labels                       map[string]string
	}
	Spec struct {
		Version           string
		KubeadmConfigSpec struct{ Files []struct{ Content string } }
		Template          struct {
			Spec struct {
				Version   string
				Bootstrap struct{ ConfigRef struct{ Name string } }
			}
		}
	}
}

// version returns the Kubernetes version that the part has or gives to Machines.
func (p part) version() string { return p.Spec.Version + p.Spec.Template.Spec.Version }

// role returns the role that the part belongs to, such as "md-0".
func (p part) role() string {
	if deployment, worker := p.Metadata.Labels["topology.cluster.x-k8s.io/deployment-name"]; worker {
		return deployment
	}
	return "control plane"
}

// generation identifies the state of the ClusterClass from which the part was created. For a control plane, it contains
// the files for its hosts; for a MachineDeployment, the name of its bootstrap template.
func (p part) generation() string {
	text := p.role() + " " + p.version() + " " + p.Spec.Template.Spec.Bootstrap.ConfigRef.Name
	for _, f := range p.Spec.KubeadmConfigSpec.Files {
		text += f.Content
	}
	return text
}

// parts lists the objects of a topology: control plane, MachineDeployments, the objects created for them, and
// templates.
func parts(t *testing.T, cluster string) []part {
	t.Helper()
	return decode[struct{ Items []part }](t, "kubectl", "get",
		"capstanclusters,kubeadmcontrolplanes,machinedeployments,machinesets,machines,kubeadmconfigtemplates,"+
			"capstanmachinetemplates",
		"-l", "cluster.x-k8s.io/cluster-name="+cluster).Items
}

// shape summarizes the parts. It changes when a part is added, removed or being deleted, or when a field that the
// topology controls changes.
func shape(t *testing.T, cluster string) []string {
	t.Helper()
	var all []string
	for _, p := range parts(t, cluster) {
		text := fmt.Sprintf("%s/%s uid %s version %q deleted %q", p.Kind, p.Metadata.Name, p.Metadata.UID, p.version(),
			p.Metadata.DeletionTimestamp)
		if p.Kind == "KubeadmControlPlane" || p.Kind == "MachineDeployment" {
			text += fmt.Sprintf(" generation %d", p.Metadata.Generation)
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// sameShape compares the parts of a cluster with an earlier shape.
func sameShape(t *testing.T, cluster, when string, before []string) {
	t.Helper()
	if now := shape(t, cluster); !slices.Equal(now, before) {
		t.Errorf("%s the topology was\n  %s\nand is\n  %s", when, strings.Join(before, "\n  "), strings.Join(now, "\n  "))
	}
}
