//go:build !k8s134 && !k8s135

package kubelet

import (
	"context"

	v1 "k8s.io/api/core/v1"
	upstream "k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/config"
)

// newPodConfig returns the object that merges the sources of pods.
func newPodConfig(deps *upstream.Dependencies) *config.PodConfig {
	return config.NewPodConfig(deps.Recorder, deps.PodStartupLatencyTracker)
}

// askNode returns the kubelet's Node.
func askNode(ctx context.Context, getNode cm.GetNodeFunc) (*v1.Node, error) { return getNode(ctx) }

// rewriting returns the channel for a source of pods: whatever is sent to it arrives at out with each pod rewritten.
// The kubelet does not export the element's type, but its shape is known, so the type is a parameter here. The
// goroutine exits when ctx ends.
func rewriting[U ~struct{ Pods []*v1.Pod }](
	ctx context.Context, change rewriter, source string, out chan<- U,
) chan<- U {
	in := make(chan U)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case update := <-in:
				pods := struct{ Pods []*v1.Pod }(update).Pods
				rewritten := make([]*v1.Pod, len(pods))
				for i, pod := range pods {
					rewritten[i] = change(pod, source)
				}
				select {
				case <-ctx.Done():
					return
				case out <- U(struct{ Pods []*v1.Pod }{rewritten}):
				}
			}
		}
	}()
	return in
}
