package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/reconcilers/topology/cluster/patches"
	"sigs.k8s.io/cluster-api/exp/topology/scope"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/sample"
	"github.com/capstan-dev/capstan/runtime/server"
	"github.com/capstan-dev/capstan/runtime/topology"
)

type placement struct {
	Zone string `json:"zone" schema:"pattern=^zone-[a-z]$"`
}

var zone = topology.Define[placement]("placement", topology.Required())

const annotation = "example.org/zone"

// extension serves an extension that patches and validates templates with the Runtime SDK.
func extension(t *testing.T) *hooktest.Extension {
	t.Helper()
	machines := topology.Kind(infrav1.GroupVersion.Group, "CapstanMachineTemplate")
	patch := func(_ context.Context, template *infrav1.CapstanMachineTemplate, input topology.Input) error {
		value, found, err := zone.Get(input.Variables)
		if err != nil || !found {
			return err
		}
		builtins, err := input.Builtins()
		if err != nil {
			return err
		}
		if template.Annotations == nil {
			template.Annotations = map[string]string{}
		}
		template.Annotations[annotation] = value.Zone + " of " + builtins.Cluster.Name
		return nil
	}
	validate := func(_ context.Context, template *infrav1.CapstanMachineTemplate, _ topology.Input) error {
		if !strings.HasPrefix(template.Annotations[annotation], "zone-") {
			return errors.New("it has no zone")
		}
		return nil
	}
	return hooktest.Start(t,
		server.Handle(hook.DiscoverVariables, "variables", topology.DiscoverVariables(zone)),
		server.Handle(hook.GeneratePatches, "patches",
			topology.GeneratePatches(topology.Mutate(machines.ForWorkers(), patch))),
		server.Handle(hook.ValidateTopology, "validate",
			topology.ValidateTopology(topology.Validate(machines.ForWorkers(), validate))))
}

func object(apiVersion, kind, name, spec string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	text := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":"default"},"spec":%s}`, apiVersion,
		kind, name, spec)
	if err := json.Unmarshal([]byte(text), o); err != nil {
		panic(err) // the JSON is written in this file
	}
	return o
}

// blueprint returns a ClusterClass with one class of workers, and the desired state that the topology reconciler
// computes from it.
func blueprint(cluster *clusterv1.Cluster) (*scope.ClusterBlueprint, *scope.ClusterState) {
	const template = `{"template":{"spec":{}}}`
	infra, core, controlPlane, bootstrap := infrav1.GroupVersion.String(), clusterv1.GroupVersion.String(),
		"controlplane.cluster.x-k8s.io/v1beta2", "bootstrap.cluster.x-k8s.io/v1beta2"
	class := &clusterv1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Name: "sample", Namespace: "default"}}
	class.Spec.Patches = []clusterv1.ClusterClassPatch{{Name: "zones", External: &clusterv1.ExternalPatchDefinition{
		GeneratePatchesExtension: "patches." + hooktest.Name, ValidateTopologyExtension: "validate." + hooktest.Name,
		DiscoverVariablesExtension: "variables." + hooktest.Name,
	}}}
	class.Spec.ControlPlane.MachineInfrastructure.TemplateRef = clusterv1.ClusterClassTemplateReference{
		APIVersion: infra, Kind: "CapstanMachineTemplate", Name: "control-plane",
	}
	schema, _ := topology.CheckVariables(zone)
	class.Status.Variables = []clusterv1.ClusterClassStatusVariable{
		{Name: "placement", Definitions: []clusterv1.ClusterClassStatusVariableDefinition{
			{From: "zones", Required: schema[0].Required, Schema: schema[0].Schema},
		}}}
	deployment := &clusterv1.MachineDeployment{
		TypeMeta: metav1.TypeMeta{APIVersion: core, Kind: "MachineDeployment"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "sample-md-0", Namespace: "default", Labels: map[string]string{
				clusterv1.ClusterTopologyMachineDeploymentNameLabel: "md-0",
			},
		},
	}
	deployment.Spec.Template.Spec.Version = cluster.Spec.Topology.Version
	return &scope.ClusterBlueprint{
			Topology: cluster.Spec.Topology, ClusterClass: class,
			InfrastructureClusterTemplate: object(infra, "CapstanClusterTemplate", "sample", template),
			ControlPlane: &scope.ControlPlaneBlueprint{
				Template:                      object(controlPlane, "KubeadmControlPlaneTemplate", "sample", template),
				InfrastructureMachineTemplate: object(infra, "CapstanMachineTemplate", "control-plane", template),
			},
			MachineDeployments: map[string]*scope.MachineDeploymentBlueprint{"default-worker": {
				InfrastructureMachineTemplate: object(infra, "CapstanMachineTemplate", "worker", template),
				BootstrapTemplate:             object(bootstrap, "KubeadmConfigTemplate", "worker", template),
			}},
		}, &scope.ClusterState{
			Cluster:               cluster,
			InfrastructureCluster: object(infra, "CapstanCluster", "sample", `{}`),
			ControlPlane: &scope.ControlPlaneState{
				Object: object(controlPlane, "KubeadmControlPlane", "sample",
					`{"version":"v1.36.3","replicas":1}`),
				InfrastructureMachineTemplate: object(infra, "CapstanMachineTemplate", "sample-control-plane", template),
			},
			MachineDeployments: map[string]*scope.MachineDeploymentState{"md-0": {
				Object:                        deployment,
				InfrastructureMachineTemplate: object(infra, "CapstanMachineTemplate", "sample-md-0", template),
				BootstrapTemplate:             object(bootstrap, "KubeadmConfigTemplate", "sample-md-0", template),
			}},
		}
}

// TestThePatchEngineTakesTypedPatches: Cluster API's patch engine calls typed patches and validations through our
// client, and the objects that it would apply contain their changes.
func TestThePatchEngineTakesTypedPatches(t *testing.T) {
	if err := feature.MutableGates.SetFromMap(map[string]bool{string(feature.RuntimeSDK): true}); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(apiextensionsv1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	// The engine reads only one thing from the API server: which contract the control plane's type follows.
	contract := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
		Name:   "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io",
		Labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1beta2"},
	}}
	engine := patches.NewEngine(fake.NewClientBuilder().WithScheme(scheme).WithObjects(contract).Build(),
		extension(t).Client)

	cluster := sample.Cluster()
	cluster.Spec.Topology.Variables = []clusterv1.ClusterVariable{
		{Name: "placement", Value: apiextensionsv1.JSON{Raw: []byte(`{"zone":"zone-b"}`)}},
	}
	plan, state := blueprint(cluster)
	if err := engine.Apply(t.Context(), plan, state); err != nil {
		t.Fatal(err)
	}
	if got := state.MachineDeployments["md-0"].InfrastructureMachineTemplate.GetAnnotations()[annotation]; got !=
		"zone-b of sample" {
		t.Errorf("the workers' template has the annotation %q, want the zone and the Cluster's name", got)
	}
	if got := state.ControlPlane.InfrastructureMachineTemplate.GetAnnotations()[annotation]; got != "" {
		t.Errorf("the control plane's template has the annotation %q, want none", got)
	}
	t.Attr("rule", "UH-01")

	cluster.Spec.Topology.Variables = nil // then there is no patch, and the validation fails
	plan, state = blueprint(cluster)
	if err := engine.Apply(t.Context(), plan, state); err == nil ||
		!strings.Contains(err.Error(), "CapstanMachineTemplate of MachineDeployment sample-md-0: it has no zone") {
		t.Errorf("error is %v, want one that says that the template has no zone", err)
	}
	t.Attr("rule", "UH-04")
}
