//go:build k8s134 || k8s135

package kubelet

import (
	"context"

	v1 "k8s.io/api/core/v1"
	upstream "k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// newPodConfig returns the object that merges the sources of pods.
func newPodConfig(deps *upstream.Dependencies) *config.PodConfig {
	return config.NewPodConfig(config.PodConfigNotificationIncremental, deps.Recorder, deps.PodStartupLatencyTracker)
}

// askNode returns the kubelet's Node.
func askNode(_ context.Context, getNode cm.GetNodeFunc) (*v1.Node, error) { return getNode() }

// rewriting returns the channel for a source of pods: whatever is sent to it arrives at out with each pod rewritten.
// The goroutine exits when ctx ends.
func rewriting(ctx context.Context, change rewriter, source string, out chan<- any) chan<- any {
	in := make(chan any)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case update := <-in:
				if u, ok := update.(kubetypes.PodUpdate); ok {
					pods := make([]*v1.Pod, len(u.Pods))
					for i, pod := range u.Pods {
						pods[i] = change(pod, source)
					}
					u.Pods = pods
					update = u
				}
				select {
				case <-ctx.Done():
					return
				case out <- update:
				}
			}
		}
	}()
	return in
}
