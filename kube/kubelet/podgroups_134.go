//go:build k8s134

package kubelet

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm"
)

// SetPodCgroupConfig does nothing: see podContainers.
func (podContainers) SetPodCgroupConfig(*v1.Pod, *cm.ResourceConfig) error { return nil }
