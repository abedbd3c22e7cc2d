package capacity

import (
	"errors"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/part/parttest"
)

func variable(name, value string) clusterv1.ClusterVariable {
	return clusterv1.ClusterVariable{Name: name, Value: apiextensionsv1.JSON{Raw: []byte(value)}}
}

// selective makes class local use templates of CapstanMachines, and gives host 0 the label disk=ssd and four
// processors. change changes the template of workers.
func selective(w *parttest.World, change func(*infrav1.CapstanMachineSpec)) {
	class := w.Classes["default/local"]
	class.Namespace = "default"
	class.Spec.ControlPlane.MachineInfrastructure.TemplateRef.Kind = machineTemplate
	workers := &class.Spec.Workers.MachineDeployments[0].Infrastructure.TemplateRef
	workers.Kind, workers.Name = machineTemplate, "workers"
	template := &infrav1.CapstanMachineTemplate{}
	change(&template.Spec.Template.Spec)
	w.Templates = map[string]*infrav1.CapstanMachineTemplate{"default/workers": template}
	w.Hosts[0].Labels = map[string]string{"disk": "ssd"}
	w.Hosts[0].Status.Agent = &infrav1.AgentReport{Processors: 4}
}

// local makes Clusters of class local use a balancer of the management plane.
func local(w *parttest.World) {
	ref := clusterv1.ClusterClassTemplateReference{Kind: clusterTemplate, Name: "balancer"}
	w.Classes["default/local"].Spec.Infrastructure.TemplateRef = ref
	template := &infrav1.CapstanClusterTemplate{}
	template.Spec.Template.Spec.LoadBalancer.Type = infrav1.LoadBalancerLocal
	w.ClusterTemplates = map[string]*infrav1.CapstanClusterTemplate{"default/balancer": template}
}

func TestWhatMachinesSelect(t *testing.T) {
	onSSD := func(s *infrav1.CapstanMachineSpec) {
		s.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "ssd"}}
	}
	for name, c := range map[string]struct {
		template func(*infrav1.CapstanMachineSpec)
		change   func(*parttest.World, *clusterv1.Cluster)
		want     string
	}{
		"no selection": {
			func(*infrav1.CapstanMachineSpec) {}, nil, "passes: cluster needs 3 hosts, 3 of 3 are free",
		},
		"labels in the template": {
			onSSD, nil, "wait 5s: cluster needs 2 hosts with labels disk=ssd, 1 of 3 is free (2 without them): add hosts, or " +
				"make the cluster smaller",
		},
		"hardware in the template": {
			func(s *infrav1.CapstanMachineSpec) { s.HostRequirements.MinProcessors = 4 }, nil,
			"wait 5s: cluster needs 2 hosts with 4 processors, 1 of 3 is free (2 without them): add hosts, or make the " +
				"cluster smaller",
		},
		"labels in a variable, not those in the template": {
			onSSD, func(w *parttest.World, c *clusterv1.Cluster) {
				c.Spec.Topology.Variables = []clusterv1.ClusterVariable{variable("workerHosts", `{"disk":"any"}`)}
				w.Hosts[1].Labels, w.Hosts[2].Labels = map[string]string{"disk": "any"}, map[string]string{"disk": "any"}
			}, "passes: cluster needs 3 hosts, 3 of 3 are free",
		},
		"labels in an override, not those in the variable": {
			onSSD, func(_ *parttest.World, c *clusterv1.Cluster) {
				c.Spec.Topology.Variables = []clusterv1.ClusterVariable{variable("workerHosts", `{"disk":"none"}`)}
				c.Spec.Topology.Workers.MachineDeployments[0].Variables.Overrides = []clusterv1.ClusterVariable{
					variable("workerHosts", `{"disk":"any"}`),
				}
			}, "wait 5s: cluster needs 2 hosts with labels disk=any, 0 of 3 are free (3 without them): add hosts, or make " +
				"the cluster smaller",
		},
		"labels of control planes": {
			func(*infrav1.CapstanMachineSpec) {}, func(_ *parttest.World, c *clusterv1.Cluster) {
				c.Spec.Topology.Variables = []clusterv1.ClusterVariable{variable("controlPlaneHosts", `{"disk":"none"}`)}
			}, "wait 5s: cluster needs 1 host with labels disk=none, 0 of 3 are free (3 without them): add hosts, or make " +
				"the cluster smaller",
		},
		"a variable that has another meaning": {
			func(*infrav1.CapstanMachineSpec) {}, func(_ *parttest.World, c *clusterv1.Cluster) {
				c.Spec.Topology.Variables = []clusterv1.ClusterVariable{variable("workerHosts", `3`)}
			}, "passes: cluster needs 3 hosts, 3 of 3 are free",
		},
		"a balancer that reaches only local hosts": {
			func(*infrav1.CapstanMachineSpec) {}, func(w *parttest.World, _ *clusterv1.Cluster) {
				local(w)
				w.Hosts[1].Labels = map[string]string{infrav1.EnrolledLabel: "true"}
			}, "wait 5s: cluster needs 3 hosts, 2 of 3 are free (1 not local): add hosts, or make the cluster smaller",
		},
		"labels, and a balancer that reaches only local hosts": {
			onSSD, func(w *parttest.World, _ *clusterv1.Cluster) {
				local(w)
				w.Hosts[0].Labels[infrav1.EnrolledLabel] = "true"
				w.Hosts = append(w.Hosts, parttest.NewWorld(1).Hosts...)
			}, "wait 5s: cluster needs 2 hosts with labels disk=ssd, 0 of 4 are free (4 without them): add hosts, or make " +
				"the cluster smaller",
		},
		"a template of the balancer that can't be read": {
			onSSD, func(w *parttest.World, _ *clusterv1.Cluster) {
				local(w)
				w.Fail[clusterTemplate] = errors.New("forbidden")
			}, "reading CapstanClusterTemplate default/balancer: forbidden",
		},
		"a template that does not exist": {
			onSSD, func(w *parttest.World, _ *clusterv1.Cluster) { w.Templates = nil },
			"passes: cluster needs 3 hosts, 3 of 3 are free",
		},
		"a template that can't be read": {
			onSSD, func(w *parttest.World, _ *clusterv1.Cluster) {
				w.Fail["CapstanMachineTemplate"] = errors.New("forbidden")
			}, "reading CapstanMachineTemplate default/t: forbidden",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, mine := parttest.NewWorld(3), parttest.NewCluster("mine", 1, 2)
			selective(w, c.template)
			if c.change != nil {
				c.change(w, &mine)
			}
			if got := ask(t, newGate(w), mine); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// A host that the machines of a rollout can't use does not count as room for its surge.
func TestSurgeOnSelectedHosts(t *testing.T) {
	w := parttest.NewWorld(4)
	cluster := surging(w, 3)
	selective(w, func(s *infrav1.CapstanMachineSpec) { s.HostRequirements.MinProcessors = 4 })
	cluster.Spec.Topology.Variables = []clusterv1.ClusterVariable{variable("controlPlaneHosts", `{"disk":"ssd"}`)}
	got := said(t)(newGate(w).upgradeControlPlane(t.Context(), &cluster, "v1.36.3"))
	if want := "wait 5s: upgrade of the control plane needs 1 host with labels disk=ssd, 0 of 4 are free (3 claimed, 1 " +
		"without them): add hosts, or set maxSurge of the control plane to 0"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	md := deployment("md", "", 2, "")
	md.Spec.Template.Spec.InfrastructureRef.Kind = machineTemplate
	md.Spec.Template.Spec.InfrastructureRef.Name = "workers"
	w.Deployments = []clusterv1.MachineDeployment{md}
	const workers = "upgrade of workers needs 1 host with 4 processors, "
	got = said(t)(newGate(w).upgradeWorkers(t.Context(), &cluster, "v1.36.3"))
	if want := "wait 5s: " + workers + "0 of 4 are free (3 claimed, 1 without them): add hosts, or set maxSurge of the " +
		"MachineDeployments to 0"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	w.Hosts[3].Status.Agent = &infrav1.AgentReport{Processors: 8}
	got = said(t)(newGate(w).upgradeWorkers(t.Context(), &cluster, "v1.36.3"))
	if want := "passes: " + workers + "1 of 4 is free (3 claimed)"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
