//go:build !k8s134 && !k8s135

package cri

import (
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
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
