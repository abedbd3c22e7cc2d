//go:build k8s134

package kubelet

import (
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/config"
)

// The kubelet's sources of pods. In this release they log through package klog's functions, so they take no logger.

func newSourceFile(_ klog.Logger, path string, node types.NodeName, period time.Duration, out chan<- any) {
	config.NewSourceFile(path, node, period, out)
}

func newSourceURL(
	_ klog.Logger, url string, header http.Header, node types.NodeName, period time.Duration, out chan<- any,
) {
	config.NewSourceURL(url, header, node, period, out)
}

func newSourceApiserver(
	_ klog.Logger, client kubernetes.Interface, node types.NodeName, synced func() bool, out chan<- any,
) {
	config.NewSourceApiserver(client, node, synced, out)
}
