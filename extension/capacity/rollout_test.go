package capacity

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/part/parttest"
	"github.com/capstan-dev/capstan/extension/workload"
)

// surging returns an existing Cluster, all of whose machines have hosts.
func surging(w *parttest.World, claimed int) clusterv1.Cluster {
	cluster := parttest.NewCluster("mine", 1, 2)
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: workload.KubeadmControlPlane.Group, Kind: "KubeadmControlPlane", Name: "mine",
	}
	w.Clusters = append(w.Clusters, cluster)
	for i := range claimed {
		w.Hosts[i].Spec.Claim = &infrav1.HostClaim{Cluster: "mine"}
	}
	return cluster
}

func deployment(name, zone string, replicas int32, surge string) clusterv1.MachineDeployment {
	md := clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	md.Spec.ClusterName, md.Spec.Replicas = "mine", &replicas
	md.Spec.Template.Spec.FailureDomain = zone
	md.Spec.Template.Spec.InfrastructureRef.APIGroup = infrav1.GroupVersion.Group
	if surge != "" {
		value := intstr.Parse(surge)
		md.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = &value
	}
	return md
}

func TestSurgeOfTheControlPlane(t *testing.T) {
	controlPlane := func(surge any) *unstructured.Unstructured {
		return &unstructured.Unstructured{
			Object: map[string]any{
				"spec": map[string]any{
					"rollout": map[string]any{"strategy": map[string]any{"rollingUpdate": map[string]any{"maxSurge": surge}}},
				},
			},
		}
	}
	for name, c := range map[string]struct {
		hosts  int
		change func(*parttest.World, *clusterv1.Cluster)
		want   string
	}{
		"a host is free": {
			4, nil, "passes: upgrade of the control plane needs 1 host, 1 of 4 is free (3 claimed)",
		},
		"no host is free": {
			3, nil,
			"wait 5s: upgrade of the control plane needs 1 host, 0 of 3 are free (3 claimed): add hosts, or set maxSurge of " +
				"the control plane to 0",
		},
		"no surge": {
			3, func(w *parttest.World, _ *clusterv1.Cluster) { w.ControlPlane = controlPlane(int64(0)) }, "passes: ",
		},
		"a surge of one, as text": {3, func(w *parttest.World, _ *clusterv1.Cluster) { w.ControlPlane = controlPlane("1") },
			"wait 5s: upgrade of the control plane needs 1 host, 0 of 3 are free (3 claimed): add hosts, or set maxSurge of " +
				"the control plane to 0"},
		"a control plane of another kind": {
			4, func(_ *parttest.World, c *clusterv1.Cluster) { c.Spec.ControlPlaneRef.Kind = "HostedControlPlane" },
			"passes: upgrade of the control plane needs 1 host, 1 of 4 is free (3 claimed)",
		},
		"machines of another provider": {
			3, func(_ *parttest.World, c *clusterv1.Cluster) { c.Spec.Topology.ClassRef.Name = "cloud" }, "passes: ",
		},
		"the control plane can't be read": {
			4, func(w *parttest.World, _ *clusterv1.Cluster) { w.Fail["ControlPlane"] = errors.New("forbidden") },
			"reading KubeadmControlPlane mine: forbidden",
		},
		"hosts can't be listed": {
			4, func(w *parttest.World, _ *clusterv1.Cluster) { w.Fail["CapstanHost"] = errors.New("forbidden") },
			"listing CapstanHosts: forbidden",
		},
		"the last free host is promised": {4, func(w *parttest.World, _ *clusterv1.Cluster) {
			other := parttest.NewCluster("other", 1, 0)
			other.Spec.ControlPlaneRef.Name, other.Spec.ControlPlaneRef.APIGroup, other.Spec.ControlPlaneRef.Kind = "o", "g", "K"
			w.Clusters = append(w.Clusters, other)
		}, "wait 5s: upgrade of the control plane needs 1 host, 0 of 4 are free (3 claimed, 1 promised to machines that " +
			"wait for theirs): add hosts, or set maxSurge of the control plane to 0"},
		"the free host is for a machine of the Cluster itself": {3,
			func(w *parttest.World, _ *clusterv1.Cluster) { w.Hosts[2].Spec.Claim = nil },
			"wait 5s: upgrade of the control plane needs 1 host, 0 of 3 are free (2 claimed, 1 promised to machines that wait " +
				"for theirs): add hosts, or set maxSurge of the control plane to 0"},
		"one of two free hosts is for a machine of the Cluster itself": {
			4, func(w *parttest.World, _ *clusterv1.Cluster) { w.Hosts[2].Spec.Claim = nil },
			"passes: upgrade of the control plane needs 1 host, 1 of 4 is free (2 claimed, 1 promised to machines that wait " +
				"for theirs)"},
		"the upgrade comes before a new Cluster": {4, func(w *parttest.World, _ *clusterv1.Cluster) {
			w.Clusters = append(w.Clusters, parttest.NewCluster("a", 1, 0))
		}, "passes: upgrade of the control plane needs 1 host, 1 of 4 is free (3 claimed)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := parttest.NewWorld(c.hosts)
			cluster := surging(w, 3)
			if c.change != nil {
				c.change(w, &cluster)
			}
			got := said(t)(newGate(w).upgradeControlPlane(t.Context(), &cluster, "v1.36.3"))
			if got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

func TestSurgeOfWorkers(t *testing.T) {
	onDelete := deployment("md", "", 2, "")
	onDelete.Spec.Rollout.Strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
	foreign := deployment("md", "", 2, "")
	foreign.Spec.Template.Spec.InfrastructureRef.APIGroup = "infrastructure.example.org"
	upgraded := deployment("md", "", 10, "9")
	upgraded.Spec.Template.Spec.Version = "v1.36.3"
	elsewhere := deployment("md", "", 2, "")
	elsewhere.Spec.ClusterName = "other"
	const none = "wait 5s: upgrade of workers needs 1 host, 0 of 3 are free (3 claimed): add hosts, or set maxSurge of " +
		"the MachineDeployments to 0"
	for name, c := range map[string]struct {
		hosts       int
		deployments []clusterv1.MachineDeployment
		atOnce      string
		want        string
	}{
		"no workers": {3, nil, "", "passes: "},
		"a host is free": {4, []clusterv1.MachineDeployment{deployment("md", "", 2, "")}, "",
			"passes: upgrade of workers needs 1 host, 1 of 4 is free (3 claimed)"},
		"no host is free": {3, []clusterv1.MachineDeployment{deployment("md", "", 2, "")}, "", none},
		"no surge":        {3, []clusterv1.MachineDeployment{deployment("md", "", 2, "0")}, "", "passes: "},
		"a surge in percent is rounded": {4, []clusterv1.MachineDeployment{deployment("md", "", 5, "30%")}, "",
			"wait 5s: upgrade of workers needs 2 hosts, 1 of 4 is free (3 claimed): add hosts, or set maxSurge of the " +
				"MachineDeployments to 0"},
		"no machines":                    {3, []clusterv1.MachineDeployment{deployment("md", "", 0, "")}, "", "passes: "},
		"machines that users replace":    {3, []clusterv1.MachineDeployment{onDelete}, "", "passes: "},
		"machines of another provider":   {3, []clusterv1.MachineDeployment{foreign}, "", "passes: "},
		"machines that have the version": {3, []clusterv1.MachineDeployment{upgraded}, "", "passes: "},
		"machines of another Cluster":    {3, []clusterv1.MachineDeployment{elsewhere}, "", "passes: "},
		"one deployment after the other": {
			4, []clusterv1.MachineDeployment{deployment("a", "", 2, ""), deployment("b", "", 2, ""), deployment("c", "", 2, "")},
			"", "passes: upgrade of workers needs 1 host, 1 of 4 is free (3 claimed)",
		},
		"two at a time": {
			4, []clusterv1.MachineDeployment{deployment("a", "", 2, ""), deployment("b", "", 2, ""), deployment("c", "", 2, "")},
			"2", "wait 5s: upgrade of workers needs 2 hosts, 1 of 4 is free (3 claimed): add hosts, or set maxSurge of the " +
				"MachineDeployments to 0",
		},
		"no host in the zone of the next": {
			4, []clusterv1.MachineDeployment{deployment("a", "", 2, ""), deployment("b", "zone-b", 2, "")}, "",
			"wait 5s: upgrade of workers needs 1 host in zone-b, there are none: add hosts there, or change the failure domains",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := parttest.NewWorld(c.hosts)
			cluster := surging(w, 3)
			w.Deployments = c.deployments
			if c.atOnce != "" {
				cluster.Annotations = map[string]string{clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation: c.atOnce}
			}
			got := said(t)(newGate(w).upgradeWorkers(t.Context(), &cluster, "v1.36.3"))
			if got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}
