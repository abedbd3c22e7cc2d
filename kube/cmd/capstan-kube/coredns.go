//go:build !k8s134

// CoreDNS v1.12, which kubeadm v1.34 installs, doesn't compile with the client library of Kubernetes v1.34.

package main

import (
	"io"

	"github.com/capstan-dev/capstan/kube/coredns"
)

func init() { applets["coredns"] = runCoreDNS } // runs after the init function in applets.go

func runCoreDNS([]string, io.Writer, io.Writer) int {
	coredns.Main()
	return 0
}
