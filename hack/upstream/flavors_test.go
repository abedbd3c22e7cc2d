package main

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// theirs returns a small substitute for upstream's files, with the same kinds and names.
func theirs() fstest.MapFS {
	files := map[string]string{
		"bases/crs.yaml": `
apiVersion: v1
kind: ConfigMap
metadata: {name: "cni-${CLUSTER_NAME}"}
data: ${CNI_RESOURCES}
---
apiVersion: addons.cluster.x-k8s.io/v1beta2
kind: ClusterResourceSet
metadata: {name: "${CLUSTER_NAME}-crs"}
spec: {clusterSelector: {matchLabels: {cni: "${CLUSTER_NAME}-crs"}}}
`,
		"cluster-template-md-remediation/md.yaml": `
kind: MachineDeployment
metadata: {name: "${CLUSTER_NAME}-md-0"}
spec: {template: {metadata: {labels: {remediated: ""}}}}
`,
		"cluster-template-md-remediation/mhc.yaml":      "kind: MachineHealthCheck\nmetadata: {name: workers}\n",
		"cluster-template-kcp-remediation/mhc.yaml":     "kind: MachineHealthCheck\nmetadata: {name: control-planes}\n",
		"cluster-template-kcp-md-taints/md-taints.yaml": taints("MachineDeployment", "md-0", "template"),
		"cluster-template-kcp-md-taints/kcp-taints.yaml": taints(
			"KubeadmControlPlane",
			"control-plane",
			"machineTemplate",
		),
		"cluster-template-topology-taints/controlplane-taints.yaml": `
kind: Cluster
metadata: {name: theirs, namespace: default}
spec: {topology: {controlPlane: {taints: [{key: early}]}}}
`,
		"cluster-template-kcp-remediation/cluster-with-kcp.yaml": `
kind: DevMachineTemplate
metadata: {name: theirs}
---
kind: KubeadmControlPlane
metadata: {name: theirs}
spec:
  kubeadmConfigSpec:
    files: [{path: /wait-signal.sh, content: wait}]
    preKubeadmCommands:
    - ./wait-signal.sh "${TOKEN}"
`,
	}
	system := fstest.MapFS{}
	for name, text := range files {
		system[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return system
}

func taints(kind, name, field string) string {
	return "kind: " + kind + "\nmetadata: {name: \"${CLUSTER_NAME}-" + name + "\"}\nspec: {" + field +
		": {spec: {taints: [{key: early}]}}}\n"
}

func made(t *testing.T) map[string][]document {
	t.Helper()
	files, err := sources{ours: os.DirFS("../../templates"), theirs: theirs()}.templates()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]document{}
	for name, data := range files {
		if all[name], err = parse(data); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return all
}

func TestFlavorsAreOursWithTheirChanges(t *testing.T) {
	all := made(t)
	for name, c := range map[string]struct {
		file, kind string
		path       []string
		want       any
	}{
		"the plain cluster is selected by the ClusterResourceSet": {
			"cluster-template.yaml", "Cluster", []string{"metadata", "labels", "cni"}, "${CLUSTER_NAME}-crs",
		},
		"numbers stay variables": {
			"cluster-template.yaml", "KubeadmControlPlane", []string{"spec", "replicas"},
			"${CONTROL_PLANE_MACHINE_COUNT}",
		},
		"remediated workers have the label": {
			"cluster-template-md-remediation.yaml", "MachineDeployment",
			[]string{"spec", "template", "metadata", "labels", "remediated"}, "",
		},
		"remediated workers keep our infrastructure": {
			"cluster-template-md-remediation.yaml", "MachineDeployment",
			[]string{"spec", "template", "spec", "infrastructureRef", "kind"}, "CapstanMachineTemplate",
		},
		"control planes that wait for a signal keep our infrastructure": {
			"cluster-template-kcp-remediation.yaml", "KubeadmControlPlane",
			[]string{"spec", "machineTemplate", "spec", "infrastructureRef", "kind"}, "CapstanMachineTemplate",
		},
		"a class may be in another namespace": {
			"cluster-template-topology.yaml", "Cluster", []string{"spec", "topology", "classRef", "namespace"},
			"${CLUSTER_CLASS_NAMESPACE:-${NAMESPACE}}",
		},
		"a class without workers has another name": {
			"cluster-template-topology-kcp-only.yaml", "Cluster", []string{"spec", "topology", "classRef", "name"},
			classWithoutWorkers,
		},
		"a class without workers really has no workers": {
			"clusterclass-capstan-local-kcp-only.yaml", "ClusterClass", []string{"spec", "workers"}, nil,
		},
		"a cluster without workers really has no workers": {
			"cluster-template-topology-no-workers.yaml", "Cluster", []string{"spec", "topology", "workers"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := find(all[c.file], c.kind)
			if err != nil {
				t.Fatalf("%s: %v", c.file, err)
			}
			if got := d.get(c.path...); got != c.want {
				t.Errorf("%s has %v, want %v", strings.Join(c.path, "."), got, c.want)
			}
		})
	}
}

// TestPodsAreHollow checks that every configuration of kubeadm asks for hollow pods.
func TestPodsAreHollow(t *testing.T) {
	for file, documents := range made(t) {
		text, err := format(documents)
		if err != nil {
			t.Fatal(err)
		}
		names := strings.Count(string(text), "local_hostname") // each registration sets one
		if sockets := strings.Count(string(text), "criSocket: "+hollowSocket); sockets != names {
			t.Errorf("%s registers Nodes %d times, but %d times with hollow pods", file, names, sockets)
		}
	}
}

func TestControlPlanesWaitForTheSignal(t *testing.T) {
	d, err := find(made(t)["cluster-template-kcp-remediation.yaml"], "KubeadmControlPlane")
	if err != nil {
		t.Fatal(err)
	}
	commands, _ := d.get("spec", "kubeadmConfigSpec", "preKubeadmCommands").([]any)
	if len(commands) != 1 || commands[0] != `./wait-signal.sh "${TOKEN}"` {
		t.Errorf("commands before kubeadm are %v", commands)
	}
}

func TestAdoptionHasTwoSteps(t *testing.T) {
	steps := map[string][]string{}
	var clusters []document
	for _, d := range made(t)["cluster-template-kcp-adoption.yaml"] {
		for _, step := range []string{"kcp-adoption.step1", "kcp-adoption.step2"} {
			if d.get("metadata", "labels", step) != nil {
				steps[step] = append(steps[step], d.kind())
			}
		}
		if d.kind() == "Cluster" {
			clusters = append(clusters, d)
		}
	}
	if got := strings.Join(steps["kcp-adoption.step2"], " "); got != "Cluster KubeadmControlPlane CapstanMachineTemplate" {
		t.Errorf("step 2 has the objects %s", got)
	}
	for _, kind := range []string{"CapstanCluster", "CapstanMachine", "KubeadmConfig", "Machine", "ClusterResourceSet"} {
		if !strings.Contains(strings.Join(steps["kcp-adoption.step1"], " ")+" ", kind+" ") {
			t.Errorf("step 1 has %v, want %s among them", steps["kcp-adoption.step1"], kind)
		}
	}
	if len(clusters) != 2 || clusters[0].get("spec", "controlPlaneRef") != nil ||
		clusters[1].get("spec", "controlPlaneRef") == nil {
		t.Errorf("want a Cluster without a control plane, then one with it: %v", clusters)
	}
}

func TestAFlavorWithoutItsFileFails(t *testing.T) {
	files := theirs()
	delete(files, addons)
	_, err := sources{ours: os.DirFS("../../templates"), theirs: files}.templates()
	if err == nil || !strings.Contains(err.Error(), addons) {
		t.Errorf("got error %v, want one that names %s", err, addons)
	}
}
