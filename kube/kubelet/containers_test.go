package kubelet

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm"
)

// TestPodGroups checks that the kubelet, which reads some numbers unchecked during a resize, finds these numbers, and
// that no pod's status shows them.
func TestPodGroups(t *testing.T) {
	pods := (&containers{ContainerManager: cm.NewStubContainerManager()}).NewPodContainerManager()
	for _, resource := range []v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU} {
		got, err := pods.GetPodCgroupConfig(&v1.Pod{}, resource)
		if err != nil || got == nil || got.Memory == nil || got.CPUQuota == nil || got.CPUShares == nil ||
			got.CPUPeriod == nil {
			t.Fatalf("%s: %+v, %v", resource, got, err)
		}
		if cm.MemoryLimitsFromConfig(got) != nil || cm.CPULimitsFromConfig(got) != nil ||
			cm.CPURequestsFromConfig(got) != nil {
			t.Errorf("%s: a status would show %+v", resource, got)
		}
	}
}
