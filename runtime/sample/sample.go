// Package sample makes requests of Cluster API's hooks, as its reconcilers send them, for tests and tools.
package sample

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
)

// Versions in the samples.
const (
	// From is the version before an upgrade.
	From = "v1.35.4"
	// To is the version after it.
	To = "v1.36.3"
)

// Cluster returns a Cluster with a topology: one control plane machine, and a MachineDeployment with two.
func Cluster() *clusterv1.Cluster {
	return &clusterv1.Cluster{
		TypeMeta: metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "sample", Namespace: "default", UID: types.UID("6f9619ff-8b86-4d11-b42d-00c04fc964ff"),
		},
		Spec: clusterv1.ClusterSpec{
			ClusterNetwork: clusterv1.ClusterNetwork{
				Pods:     clusterv1.NetworkRanges{CIDRBlocks: []string{"10.244.0.0/16"}},
				Services: clusterv1.NetworkRanges{CIDRBlocks: []string{"10.96.0.0/12"}},
			},
			Topology: clusterv1.Topology{
				ClassRef:     clusterv1.ClusterClassRef{Name: "sample"},
				Version:      To,
				ControlPlane: clusterv1.ControlPlaneTopology{Replicas: ptr.To[int32](1)},
				Workers: clusterv1.WorkersTopology{MachineDeployments: []clusterv1.MachineDeploymentTopology{
					{Class: "default-worker", Name: "md-0", Replicas: ptr.To[int32](2)},
				}},
			},
		},
	}
}

// Request returns a request of a hook for this Cluster; nil means [Cluster]. Like Cluster API, it leaves out the
// Cluster's status and managed fields. Hooks that are not Cluster API's get an empty request.
func Request(of *hook.Descriptor, cluster *clusterv1.Cluster) (runtime.Object, error) {
	if cluster == nil {
		cluster = Cluster()
	}
	clean := cluster.DeepCopy()
	clean.ManagedFields, clean.Status = nil, clusterv1.ClusterStatus{}
	clean.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	version := clean.Spec.Topology.Version
	if version == "" {
		version = To
	}
	request := of.NewRequest()
	switch r := request.(type) {
	case *runtimehooksv1.BeforeClusterCreateRequest:
		r.Cluster = *clean
	case *runtimehooksv1.AfterControlPlaneInitializedRequest:
		r.Cluster = *clean
	case *runtimehooksv1.BeforeClusterUpgradeRequest:
		r.Cluster, r.FromKubernetesVersion, r.ToKubernetesVersion = *clean, From, version
		r.ControlPlaneUpgrades, r.WorkersUpgrades = steps(version), steps(version)
	case *runtimehooksv1.BeforeControlPlaneUpgradeRequest:
		r.Cluster, r.FromKubernetesVersion, r.ToKubernetesVersion = *clean, From, version
		r.ControlPlaneUpgrades, r.WorkersUpgrades = steps(version), steps(version)
	case *runtimehooksv1.AfterControlPlaneUpgradeRequest:
		r.Cluster, r.KubernetesVersion = *clean, version
		r.WorkersUpgrades = steps(version)
	case *runtimehooksv1.BeforeWorkersUpgradeRequest:
		r.Cluster, r.FromKubernetesVersion, r.ToKubernetesVersion = *clean, From, version
		r.WorkersUpgrades = steps(version)
	case *runtimehooksv1.AfterWorkersUpgradeRequest:
		r.Cluster, r.KubernetesVersion = *clean, version
	case *runtimehooksv1.AfterClusterUpgradeRequest:
		r.Cluster, r.KubernetesVersion = *clean, version
	case *runtimehooksv1.BeforeClusterDeleteRequest:
		r.Cluster = *clean
	case *runtimehooksv1.GenerateUpgradePlanRequest:
		r.Cluster = *clean
		r.FromControlPlaneKubernetesVersion, r.FromWorkersKubernetesVersion, r.ToKubernetesVersion = From, From, version
	case *runtimehooksv1.GeneratePatchesRequest:
		return patches(r, clean)
	case *runtimehooksv1.ValidateTopologyRequest:
		return topology(r, clean)
	case *runtimehooksv1.CanUpdateMachineRequest, *runtimehooksv1.CanUpdateMachineSetRequest,
		*runtimehooksv1.UpdateMachineRequest:
		return inPlace(request, clean)
	}
	return request, nil
}

func steps(version string) []runtimehooksv1.UpgradeStepInfo {
	return []runtimehooksv1.UpgradeStepInfo{{Version: version}}
}

// builtin returns the variables that Cluster API adds.
func builtin(cluster *clusterv1.Cluster) ([]runtimehooksv1.Variable, error) {
	builtins := runtimehooksv1.Builtins{Cluster: &runtimehooksv1.ClusterBuiltins{
		Name: cluster.Name, Namespace: cluster.Namespace, UID: cluster.UID,
		Topology: &runtimehooksv1.ClusterTopologyBuiltins{Version: cluster.Spec.Topology.Version},
	}}
	data, err := json.Marshal(builtins)
	if err != nil {
		return nil, fmt.Errorf("encoding the builtin variables: %w", err)
	}
	variables := []runtimehooksv1.Variable{{Name: runtimehooksv1.BuiltinsName}}
	variables[0].Value.Raw = data
	for _, v := range cluster.Spec.Topology.Variables {
		variables = append(variables, runtimehooksv1.Variable{Name: v.Name, Value: v.Value})
	}
	return variables, nil
}

const template = `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"%s","metadata":{"name":"sample","namespace":"default"},"spec":{"template":{"spec":{}}}}`

func patches(r *runtimehooksv1.GeneratePatchesRequest, cluster *clusterv1.Cluster) (runtime.Object, error) {
	variables, err := builtin(cluster)
	if err != nil {
		return nil, err
	}
	r.Variables = variables
	r.Items = []runtimehooksv1.GeneratePatchesRequestItem{
		{UID: "1", HolderReference: holder("Cluster", cluster, "spec.infrastructureRef"),
			Object: runtime.RawExtension{Raw: fmt.Appendf(nil, template, "SampleClusterTemplate")}},
		{UID: "2", HolderReference: holder("MachineDeployment", cluster, "spec.template.spec.infrastructureRef"),
			Object: runtime.RawExtension{Raw: fmt.Appendf(nil, template, "SampleMachineTemplate")}},
	}
	return r, nil
}

func topology(r *runtimehooksv1.ValidateTopologyRequest, cluster *clusterv1.Cluster) (runtime.Object, error) {
	variables, err := builtin(cluster)
	if err != nil {
		return nil, err
	}
	r.Variables = variables
	r.Items = []*runtimehooksv1.ValidateTopologyRequestItem{
		{HolderReference: holder("Cluster", cluster, "spec.infrastructureRef"),
			Object: runtime.RawExtension{Raw: fmt.Appendf(nil, template, "SampleClusterTemplate")}},
	}
	return r, nil
}

func holder(kind string, cluster *clusterv1.Cluster, path string) runtimehooksv1.HolderReference {
	return runtimehooksv1.HolderReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Namespace: cluster.Namespace, Name: cluster.Name,
		FieldPath: path,
	}
}

func inPlace(request runtime.Object, cluster *clusterv1.Cluster) (runtime.Object, error) {
	machine := func(version string) clusterv1.Machine {
		return clusterv1.Machine{
			TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"},
			ObjectMeta: metav1.ObjectMeta{Name: cluster.Name + "-0", Namespace: cluster.Namespace},
			Spec: clusterv1.MachineSpec{
				ClusterName: cluster.Name, Version: version,
				Bootstrap: clusterv1.Bootstrap{
					ConfigRef: clusterv1.ContractVersionedObjectReference{
						APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "SampleConfig", Name: "sample",
					},
				},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{
					APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "SampleMachine", Name: "sample",
				},
			},
		}
	}
	set := func(version string) clusterv1.MachineSet {
		m := machine(version)
		return clusterv1.MachineSet{
			TypeMeta: metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet"}, ObjectMeta: m.ObjectMeta,
			Spec: clusterv1.MachineSetSpec{
				ClusterName: cluster.Name, Selector: metav1.LabelSelector{
					MatchLabels: map[string]string{clusterv1.ClusterNameLabel: cluster.Name},
				}, Template: clusterv1.MachineTemplateSpec{Spec: m.Spec},
			},
		}
	}
	object := func(group, kind string) runtime.RawExtension {
		return runtime.RawExtension{
			Raw: fmt.Appendf(nil,
				`{"apiVersion":"%s.cluster.x-k8s.io/v1beta2","kind":"%s","metadata":{"name":"sample","namespace":"default"},"spec":{}}`, group, kind),
		}
	}
	infrastructure, bootstrap := object("infrastructure", "SampleMachine"), object("bootstrap", "SampleConfig")
	infrastructureTemplate, bootstrapTemplate := object("infrastructure", "SampleMachineTemplate"),
		object("bootstrap", "SampleConfigTemplate")
	switch r := request.(type) {
	case *runtimehooksv1.CanUpdateMachineRequest:
		objects := func(version string) runtimehooksv1.CanUpdateMachineRequestObjects {
			return runtimehooksv1.CanUpdateMachineRequestObjects{
				Machine: machine(version), InfrastructureMachine: infrastructure, BootstrapConfig: bootstrap,
			}
		}
		r.Current, r.Desired = objects(From), objects(To)
	case *runtimehooksv1.CanUpdateMachineSetRequest:
		objects := func(version string) runtimehooksv1.CanUpdateMachineSetRequestObjects {
			return runtimehooksv1.CanUpdateMachineSetRequestObjects{
				MachineSet: set(version), InfrastructureMachineTemplate: infrastructureTemplate,
				BootstrapConfigTemplate: bootstrapTemplate,
			}
		}
		r.Current, r.Desired = objects(From), objects(To)
	case *runtimehooksv1.UpdateMachineRequest:
		r.Desired = runtimehooksv1.UpdateMachineRequestObjects{
			Machine: machine(To), InfrastructureMachine: infrastructure, BootstrapConfig: bootstrap,
		}
	}
	return request, nil
}
