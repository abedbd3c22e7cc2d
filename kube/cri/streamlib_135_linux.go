//go:build k8s134 || k8s135

package cri

import (
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/kubelet/pkg/cri/streaming"
)

// Kubernetes 1.36 moved the streaming library to another module.
type (
	streamServer = streaming.Server
	terminalSize = remotecommand.TerminalSize
)

var (
	newStreamServer     = streaming.NewServer
	defaultStreamConfig = streaming.DefaultConfig
)
