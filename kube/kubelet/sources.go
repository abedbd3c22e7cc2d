//go:build !k8s134

package kubelet

import "k8s.io/kubernetes/pkg/kubelet/config"

// The kubelet's sources of pods.
var (
	newSourceFile      = config.NewSourceFile
	newSourceURL       = config.NewSourceURL
	newSourceApiserver = config.NewSourceApiserver
)
