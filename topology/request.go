package topology

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/hint"
)

// maxClusterName leaves room for what Cluster API appends to form machine names of at most 63 characters.
const maxClusterName = 40

// Request is the cluster that a user requests.
type Request struct {
	// Name and Namespace identify the Cluster.
	Name, Namespace string
	// Class is the name of a ClusterClass, Version a Kubernetes version such as v1.36.3.
	Class, Version string
	// ClassNamespace is the namespace of the class. Default: the Cluster's namespace.
	ClassNamespace string
	// ControlPlane and Workers are numbers of machines.
	ControlPlane, Workers int32
	// Pods is PodsReal or PodsHollow. Default: what the class sets.
	Pods string
	// ControlPlaneHost is the owned host whose address is the cluster's endpoint. Empty: the class provides the endpoint.
	ControlPlaneHost string

	// endpoint is the address of ControlPlaneHost.
	endpoint string
}

// podsVariable is the name of the ClusterClass variable that says how pods run.
const podsVariable = "pods"

// The values of the ClusterClass variable "pods".
const (
	PodsReal   = "real"
	PodsHollow = "hollow"
)

// Validate reports what is wrong with the request as far as that needs no server.
func (r Request) Validate() error {
	if errs := validation.IsDNS1035Label(r.Name); len(errs) > 0 {
		return hint.Errorf("use lower-case letters, digits and dashes, starting with a letter, for example: demo-1",
			"the name %q does not work: %s", r.Name, errs[0])
	}
	if len(r.Name) > maxClusterName {
		return hint.Errorf("choose a shorter name",
			"the name %q has %d characters; at most %d work, because names of machines are made from it",
			r.Name, len(r.Name), maxClusterName)
	}
	if r.ControlPlane < 1 {
		return hint.Errorf("use 1, or 3 for high availability",
			"--control-plane %d: a cluster needs a control plane", r.ControlPlane)
	}
	if r.ControlPlane%2 == 0 {
		return hint.Errorf(fmt.Sprintf("use %d or %d", r.ControlPlane-1, r.ControlPlane+1),
			"--control-plane %d: stacked etcd needs an odd number of members", r.ControlPlane)
	}
	if r.Workers < 0 {
		return hint.Errorf("use 0 or more", "--workers %d is negative", r.Workers)
	}
	if r.ControlPlaneHost != "" && r.ControlPlane > 1 {
		return hint.Errorf("use --control-plane 1, or apply a Cluster with an endpoint of your own: docs/owned-hosts.md",
			"a cluster whose endpoint is the address of one host has one control plane machine")
	}
	return nil
}

// Cluster returns the object to apply.
func (r Request) Cluster() *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name},
		Spec: clusterv1.ClusterSpec{
			ClusterNetwork: clusterv1.ClusterNetwork{
				Pods:     clusterv1.NetworkRanges{CIDRBlocks: []string{"10.244.0.0/16"}},
				Services: clusterv1.NetworkRanges{CIDRBlocks: []string{"10.96.0.0/16"}},
			},
			Topology: clusterv1.Topology{
				ClassRef:     r.classRef(),
				Version:      r.Version,
				ControlPlane: clusterv1.ControlPlaneTopology{Replicas: ptr.To(r.ControlPlane)},
				Workers: clusterv1.WorkersTopology{MachineDeployments: []clusterv1.MachineDeploymentTopology{{
					Class: "default-worker", Name: "md-0", Replicas: ptr.To(r.Workers),
				}}},
			},
		},
	}
	if r.Pods != "" {
		cluster.Spec.Topology.Variables = []clusterv1.ClusterVariable{{
			Name: podsVariable, Value: apiextensionsv1.JSON{Raw: []byte(strconv.Quote(r.Pods))},
		}}
	}
	if r.endpoint != "" {
		cluster.Spec.Topology.Variables = append(cluster.Spec.Topology.Variables,
			clusterv1.ClusterVariable{Name: "endpoint", Value: variable(map[string]any{"host": r.endpoint, "port": 6443})},
			clusterv1.ClusterVariable{Name: "controlPlaneHosts", Value: variable(map[string]string{
				infrav1.EndpointLabel: r.endpointMark(),
			})},
			clusterv1.ClusterVariable{Name: "podNetwork", Value: variable("capstan")},
			// The endpoint is not reachable from local hosts.
			clusterv1.ClusterVariable{Name: "workerHosts", Value: variable(map[string]string{infrav1.EnrolledLabel: "true"})})
	}
	return cluster
}

// AsksForHollow reports whether a Cluster asks for hollow pods. Pure.
func AsksForHollow(cluster *clusterv1.Cluster) bool {
	return slices.ContainsFunc(cluster.Spec.Topology.Variables, func(v clusterv1.ClusterVariable) bool {
		return v.Name == podsVariable && string(v.Value.Raw) == strconv.Quote(PodsHollow)
	})
}

// variable encodes the value of a ClusterClass variable as JSON. Pure.
func variable(value any) apiextensionsv1.JSON {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // strings and maps of strings can be encoded
	}
	return apiextensionsv1.JSON{Raw: text}
}

// classRef refers to the class. It omits the namespace if it is the Cluster's own.
func (r Request) classRef() clusterv1.ClusterClassRef {
	ref := clusterv1.ClusterClassRef{Name: r.Class}
	if r.ClassNamespace != r.Namespace {
		ref.Namespace = r.ClassNamespace
	}
	return ref
}

// Machines returns the number of machines in a cluster's topology.
func Machines(cluster *clusterv1.Cluster) int {
	topology := cluster.Spec.Topology
	n := int(ptr.Deref(topology.ControlPlane.Replicas, 1))
	for _, md := range topology.Workers.MachineDeployments {
		n += int(ptr.Deref(md.Replicas, 1))
	}
	return n
}
