package local

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// Facts summarize what a host reports about itself. None of it is verified. The JSON form is stable.
type Facts struct {
	OperatingSystem string `json:"operatingSystem,omitempty"`
	Kernel          string `json:"kernel,omitempty"`
	Architecture    string `json:"architecture,omitempty"`
	Processors      int32  `json:"processors,omitempty"`
	MemoryMiB       int64  `json:"memoryMiB,omitempty"`
	// DisksGiB is the total size of all reported disks.
	DisksGiB       int64  `json:"disksGiB,omitempty"`
	Virtualization string `json:"virtualization,omitempty"`
	// AgentVersion is the version of the agent.
	AgentVersion string `json:"agentVersion,omitempty"`
}

func factsOf(agent *infrav1.AgentReport) Facts {
	if agent == nil {
		return Facts{}
	}
	f := Facts{
		OperatingSystem: agent.OperatingSystem, Kernel: agent.Kernel, Architecture: agent.Architecture,
		Processors: agent.Processors, MemoryMiB: agent.MemoryMiB, Virtualization: agent.Virtualization,
		AgentVersion: agent.Version,
	}
	for _, d := range agent.Disks {
		f.DisksGiB += d.SizeGiB
	}
	return f
}

// HostDetails is everything known about a host. Its JSON form is stable.
type HostDetails struct {
	Host `json:",inline"`
	// Labels come from administrators: a host can't set them.
	Labels map[string]string `json:"labels,omitempty"`
	// Work is what an administrator asks of the host; empty: nothing.
	Work string `json:"work,omitempty"`
	// Addresses are those that the host reports and those that an administrator set.
	Addresses []string `json:"addresses,omitempty"`
	// KubernetesVersions are the versions that the host offers. Empty: any.
	KubernetesVersions []string `json:"kubernetesVersions,omitempty"`
	// Bundles says where the host gets the programs of a node from, such as "Mirror https://mirror.example/capstan". The
	// host's own agent.yaml takes precedence. Empty: the settings of the manager apply.
	Bundles        string             `json:"bundles,omitempty"`
	Model          string             `json:"model,omitempty"`
	ProcessorModel string             `json:"processorModel,omitempty"`
	Disks          []infrav1.HostDisk `json:"disks,omitempty"`
	Epoch          int64              `json:"epoch"`
	Conditions     []metav1.Condition `json:"conditions,omitempty"`
	// WaitsFor says what the host waits for, and what an administrator has to do, if anything.
	WaitsFor string `json:"waitsFor,omitempty"`
	// Pods says how pods run on the Node of a claimed host; nil: unknown. DescribeHost leaves it empty.
	Pods *NodePods `json:"pods,omitempty"`
}

// DescribeHost returns everything known about a host.
func DescribeHost(ctx context.Context, c client.Reader, key client.ObjectKey) (HostDetails, error) {
	h, err := getHost(ctx, c, key)
	if err != nil {
		return HostDetails{}, err
	}
	return detailsOf(h), nil
}

// detailsOf returns everything known about a host. Pure.
func detailsOf(h *infrav1.CapstanHost) HostDetails {
	d := HostDetails{
		Host: hostOf(h), Labels: h.Labels, Work: workOf(h), KubernetesVersions: h.Status.KubernetesVersions,
		Bundles: strings.TrimSpace(string(h.Spec.Bundles.Source) + " " + h.Spec.Bundles.Mirror.URL),
		Epoch:   h.Spec.Epoch, Conditions: h.Status.Conditions, WaitsFor: WaitsFor(h),
	}
	if agent := h.Status.Agent; agent != nil {
		d.Model, d.ProcessorModel, d.Disks = agent.Model, agent.ProcessorModel, agent.Disks
		d.Addresses = append(d.Addresses, agent.Addresses...)
	}
	for _, a := range h.Spec.Addresses {
		d.Addresses = append(d.Addresses, fmt.Sprintf("%s (%s)", a.Address, a.Type))
	}
	return d
}

// workOf returns what an administrator asks of a host.
func workOf(h *infrav1.CapstanHost) string {
	switch {
	case !h.DeletionTimestamp.IsZero():
		return "remove"
	case h.Spec.Maintenance != "":
		return "maintenance: " + h.Spec.Maintenance
	case h.Spec.Drain:
		return "drain"
	case h.Spec.Unschedulable:
		return "cordon"
	default:
		return ""
	}
}
