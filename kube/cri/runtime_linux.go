package cri

import (
	"cmp"
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/mode"
)

// The runtime's name and version, as shown by Nodes.
const (
	runtimeName    = mode.RuntimeName
	runtimeVersion = "1.0.0"
	apiVersion     = "v1"
)

// Version reports the runtime's name and version.
func (s *Server) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{
		Version:           "0.1.0", // the version of the kubelet's runtime API; other runtimes report the same
		RuntimeName:       runtimeName,
		RuntimeVersion:    runtimeVersion,
		RuntimeApiVersion: apiVersion,
	}, nil
}

// Status reports whether the runtime and the network are ready. Hollow pods need no network; for real pods, the network
// is ready once the Node's pod range is known. A verbose status also tells the kubelet what kind of containers run
// here. See the Go package mode.
func (s *Server) Status(ctx context.Context, req *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	features := &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: !hollow(ctx)}
	var info map[string]string
	if req.GetVerbose() {
		info = mode.Mode{
			Hollow: hollow(ctx), IDs: mode.IDsHere(), Limits: cmp.Or(s.opts.Groups.Names(), mode.LimitsNone),
		}.Info()
	}
	return &runtimeapi.StatusResponse{
		Info: info,
		Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
			{Type: runtimeapi.RuntimeReady, Status: true},
			s.networkCondition(ctx),
		}},
		RuntimeHandlers: []*runtimeapi.RuntimeHandler{{Name: "", Features: features}},
		Features:        &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true},
	}, nil
}

// RuntimeConfig reports a cgroup driver because kubelet and kubeadm require one.
func (s *Server) RuntimeConfig(context.Context,
	*runtimeapi.RuntimeConfigRequest) (*runtimeapi.RuntimeConfigResponse, error) {
	return &runtimeapi.RuntimeConfigResponse{
		Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: runtimeapi.CgroupDriver_CGROUPFS},
	}, nil
}
