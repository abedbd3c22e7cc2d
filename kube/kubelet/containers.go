package kubelet

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/status"
)

// containers is a container manager without cgroups: the kubelet's own stub, but with the true capacity of ephemeral
// storage. At its start it also receives a function that returns the Node. From the Node it determines when to accept
// pods of the API.
type containers struct {
	cm.ContainerManager
	machine *machine

	mu      sync.Mutex
	getNode cm.GetNodeFunc
}

func newContainers(m *machine) *containers {
	return &containers{ContainerManager: cm.NewStubContainerManager(), machine: m}
}

// Start is called by the kubelet as soon as the container runtime answers.
func (c *containers) Start(ctx context.Context, node *v1.Node, active cm.ActivePodsFunc, getNode cm.GetNodeFunc,
	ready config.SourcesReady, pods status.PodStatusProvider, runtime internalapi.RuntimeService,
	localStorage bool) error {
	c.mu.Lock()
	c.getNode = getNode
	c.mu.Unlock()
	return c.ContainerManager.Start(ctx, node, active, getNode, ready, pods, runtime, localStorage)
}

// GetCapacity returns the size of the host's disk as ephemeral storage; processors and memory come from machine.
func (c *containers) GetCapacity(localStorage bool) v1.ResourceList {
	if !localStorage {
		return v1.ResourceList{}
	}
	fs, err := c.machine.RootFsInfo()
	if err != nil {
		return v1.ResourceList{}
	}
	return cadvisor.EphemeralStorageCapacityFromFsInfo(fs)
}

// GetPodCgroupRoot returns the machine's root, whose figures are used for all pods together.
func (c *containers) GetPodCgroupRoot() string { return "/" }

// NewPodContainerManager returns a manager of pods without cgroups.
func (c *containers) NewPodContainerManager() cm.PodContainerManager {
	return podContainers{c.ContainerManager.NewPodContainerManager()}
}

// podContainers is the kubelet's stub, but answers the calls made for each status of a pod and for each resize. The CRI
// server sets the limits of pods: on a resize the kubelet calls its UpdatePodSandboxResources.
type podContainers struct{ cm.PodContainerManager }

// GetPodCgroupConfig returns zeros, which the status of a pod omits. The values of any resize differ from zeros.
func (podContainers) GetPodCgroupConfig(*v1.Pod, v1.ResourceName) (*cm.ResourceConfig, error) {
	return &cm.ResourceConfig{
		Memory: new(int64), CPUQuota: new(int64), CPUShares: new(uint64), CPUPeriod: new(uint64),
	}, nil
}

// nodeSynced reports whether the kubelet has received the Node from the API server. Until then it must not admit pods:
// a Node without the labels that others added would turn pods away.
func (c *containers) nodeSynced(ctx context.Context) bool {
	c.mu.Lock()
	getNode := c.getNode
	c.mu.Unlock()
	if getNode == nil {
		return false
	}
	node, err := askNode(ctx, getNode)
	// Until its informer has the Node, the kubelet uses a made-up one without a resource version.
	return err == nil && node.ResourceVersion != ""
}
