//go:build k8s134 || k8s135

package cri

import (
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/kubelet/pkg/cri/streaming"
)

// The streaming library moved between Kubernetes' modules.
type (
	streamServer = streaming.Server
	terminalSize = remotecommand.TerminalSize
)

var (
	newStreamServer     = streaming.NewServer
	defaultStreamConfig = streaming.DefaultConfig
)
