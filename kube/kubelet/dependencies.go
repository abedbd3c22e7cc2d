package kubelet

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	upstream "k8s.io/kubernetes/pkg/kubelet"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
	"k8s.io/kubernetes/pkg/util/oom"
	"k8s.io/kubernetes/pkg/volume/util/subpath"
	"k8s.io/mount-utils"

	"github.com/capstan-dev/capstan/kube/mode"
)

// nodePoll is the interval at which to check whether the Node is known, before accepting pods of the API.
const nodePoll = 100 * time.Millisecond

// dependencies returns the kubelet's dependencies. It replaces the stock parts that need cgroups or their own machine.
// It also replaces mounts if containers are hollow, and the ownership of files if the host has one id.
func dependencies(ctx context.Context, server *options.KubeletServer, of mode.Mode) (*upstream.Dependencies, error) {
	deps, err := app.UnsecuredDependencies(ctx, server, utilfeature.DefaultFeatureGate)
	if err != nil {
		return nil, fmt.Errorf("making the kubelet's parts: %w", err)
	}
	if err := os.MkdirAll(server.RootDirectory, 0o750); err != nil {
		return nil, fmt.Errorf("making the kubelet's directory: %w", err)
	}
	host := &machine{root: server.RootDirectory, started: time.Now()}
	manager := newContainers(host)
	deps.CAdvisorInterface = host
	deps.ContainerManager = manager
	change := hastenComponents
	switch {
	case of.Hollow:
		change = rewrite
		deps.Mounter = mount.NewFakeMounter(nil)
		deps.Subpather = &subpath.FakeSubpath{}
	case of.IDs == mode.IDsOne:
		change = withoutOwners
		deps.VolumePlugins = pluginsWithoutOwners(deps.VolumePlugins)
	}

	hostname, err := nodeutil.GetHostname(server.HostnameOverride)
	if err != nil {
		return nil, fmt.Errorf("finding the Node's name: %w", err)
	}
	// Run adjusts its own OOM score after creating the clients and the event recorder and before creating the kubelet.
	// That is the only moment at which the sources of pods can be set up.
	deps.OOMAdjuster = &oom.OOMAdjuster{
		ApplyOOMScoreAdj: func(int, int) error {
			if deps.PodConfig == nil {
				connect(ctx, server, deps, manager, types.NodeName(hostname), change)
			}
			return nil
		},
		ApplyOOMScoreAdjContainer: func(string, int, int) error { return nil },
	}
	return deps, nil
}

// connect makes the clients patient and sets up the sources of pods: static pods and pods of the API. Both are modified
// before the kubelet sees them.
func connect(ctx context.Context, server *options.KubeletServer, deps *upstream.Dependencies, manager *containers,
	node types.NodeName, change rewriter,
) {
	logger := klog.FromContext(ctx)
	pods := newPodConfig(deps)
	if path := server.StaticPodPath; path != "" {
		out := rewriting(ctx, change, kubetypes.FileSource, pods.Channel(ctx, kubetypes.FileSource))
		newSourceFile(logger, path, node, server.FileCheckFrequency.Duration, out)
	}
	if url := server.StaticPodURL; url != "" {
		header := http.Header(server.StaticPodURLHeader)
		out := rewriting(ctx, change, kubetypes.HTTPSource, pods.Channel(ctx, kubetypes.HTTPSource))
		newSourceURL(logger, url, header, node, server.HTTPCheckFrequency.Duration, out)
	}
	if deps.KubeClient != nil {
		bePatient(deps.KubeClient)
		bePatient(deps.HeartbeatClient)
		out := rewriting(ctx, change, kubetypes.ApiserverSource, pods.Channel(ctx, kubetypes.ApiserverSource))
		go func() {
			for !manager.nodeSynced(ctx) {
				select {
				case <-ctx.Done():
					return
				case <-time.After(nodePoll):
				}
			}
			newSourceApiserver(logger, deps.KubeClient, node, func() bool { return true }, out)
		}()
	}
	deps.PodConfig = pods
}
