package capacity

import (
	"context"
	"strconv"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// needs counts the hosts that a Cluster's topology needs, for the machines that are Capstan's according to the class.
func (s *snapshot) needs(
	ctx context.Context, cluster *clusterv1.Cluster, class *clusterv1.ClusterClass,
) ([]Need, error) {
	topology := &cluster.Spec.Topology
	version := topology.Version
	var needs []Need
	if isTemplateOurs(class.Spec.ControlPlane.MachineInfrastructure.TemplateRef) {
		limits, err := s.controlPlaneLimits(ctx, cluster, class)
		if err != nil {
			return nil, err
		}
		hosts := replicas(topology.ControlPlane.Replicas, nil)
		needs = append(needs, Need{Version: version, Limits: limits, Hosts: hosts})
	}
	for _, md := range topology.Workers.MachineDeployments {
		for _, c := range class.Spec.Workers.MachineDeployments {
			if c.Class != md.Class || !isTemplateOurs(c.Infrastructure.TemplateRef) {
				continue
			}
			zone := md.FailureDomain
			if zone == "" {
				zone = c.FailureDomain
			}
			limits, err := s.classLimits(ctx, class, c.Infrastructure.TemplateRef, workerHosts,
				md.Variables.Overrides, topology.Variables)
			if err != nil {
				return nil, err
			}
			hosts := replicas(md.Replicas, md.Metadata.Annotations)
			needs = append(needs, Need{Zone: zone, Version: version, Limits: limits, Hosts: hosts})
		}
	}
	for _, mp := range topology.Workers.MachinePools {
		for _, c := range class.Spec.Workers.MachinePools {
			if c.Class != mp.Class || !isTemplateOurs(c.Infrastructure.TemplateRef) {
				continue
			}
			zones := mp.FailureDomains
			if len(zones) == 0 {
				zones = c.FailureDomains
			}
			limits, err := s.classLimits(ctx, class, c.Infrastructure.TemplateRef, workerHosts,
				mp.Variables.Overrides, topology.Variables)
			if err != nil {
				return nil, err
			}
			hosts := replicas(mp.Replicas, mp.Metadata.Annotations)
			need := Need{Version: version, Limits: limits, Hosts: hosts}
			if len(zones) == 1 { // with several zones, each machine may be in any of them
				need.Zone = zones[0]
			}
			needs = append(needs, need)
		}
	}
	return needs, nil
}

// replicas returns the initial number of machines: the one written, else the autoscaler's minimum, else 1.
func replicas(written *int32, annotations map[string]string) int {
	if written != nil {
		return int(*written)
	}
	if least, err := strconv.Atoi(annotations[clusterv1.AutoscalerMinSizeAnnotation]); err == nil && least >= 0 {
		return least
	}
	return 1
}

func isOurs(class *clusterv1.ClusterClass) bool {
	ours := isTemplateOurs(class.Spec.ControlPlane.MachineInfrastructure.TemplateRef)
	for _, c := range class.Spec.Workers.MachineDeployments {
		ours = ours || isTemplateOurs(c.Infrastructure.TemplateRef)
	}
	for _, c := range class.Spec.Workers.MachinePools {
		ours = ours || isTemplateOurs(c.Infrastructure.TemplateRef)
	}
	return ours
}

func isTemplateOurs(ref clusterv1.ClusterClassTemplateReference) bool {
	return strings.HasPrefix(ref.APIVersion, infrav1.GroupVersion.Group+"/")
}
