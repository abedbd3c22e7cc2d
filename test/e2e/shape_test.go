package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// part is what the tests look at of an object that a topology is made of.
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

// version is the Kubernetes version that the part has or gives to Machines.
func (p part) version() string { return p.Spec.Version + p.Spec.Template.Spec.Version }

// role names what the part is of, such as "md-0".
func (p part) role() string {
	if deployment, worker := p.Metadata.Labels["topology.cluster.x-k8s.io/deployment-name"]; worker {
		return deployment
	}
	return "control plane"
}

// generation says which state of its class the part is of: a control plane by the files on its hosts, a
// MachineDeployment by the name of its template.
func (p part) generation() string {
	text := p.role() + " " + p.version() + " " + p.Spec.Template.Spec.Bootstrap.ConfigRef.Name
	for _, f := range p.Spec.KubeadmConfigSpec.Files {
		text += f.Content
	}
	return text
}

// parts lists what a topology is made of: control plane, MachineDeployments, what was made for them, and templates.
func parts(t *testing.T, cluster string) []part {
	t.Helper()
	return decode[struct{ Items []part }](t, "kubectl", "get",
		"capstanclusters,kubeadmcontrolplanes,machinedeployments,machinesets,machines,kubeadmconfigtemplates,"+
			"capstanmachinetemplates",
		"-l", "cluster.x-k8s.io/cluster-name="+cluster).Items
}

// shape sums up the parts: it changes when a part comes, goes, is being deleted, or is changed in what a topology says
// about it.
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

// sameShape compares the parts of a cluster with those of before.
func sameShape(t *testing.T, cluster, when string, before []string) {
	t.Helper()
	if now := shape(t, cluster); !slices.Equal(now, before) {
		t.Errorf("%s the topology was\n  %s\nand is\n  %s", when, strings.Join(before, "\n  "), strings.Join(now, "\n  "))
	}
}
