//go:build !k8s134 && !k8s135

package cri

import (
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
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
