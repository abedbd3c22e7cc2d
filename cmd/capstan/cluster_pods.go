package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/describe"
	"github.com/capstan-dev/capstan/local"
	"github.com/capstan-dev/capstan/topology"
)

// clusterDetails is what cluster describe prints as JSON and YAML.
type clusterDetails struct {
	describe.Objects
	// Pods says how pods run on each Node, as far as the cluster answers.
	Pods []local.NodePods `json:"pods,omitempty"`
}

// podsOf returns how pods run on the Nodes of a cluster that has been initialized, or why that is unknown.
func (a *app) podsOf(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster) ([]local.NodePods, string) {
	if cluster.Status.Initialization.ControlPlaneInitialized == nil ||
		!*cluster.Status.Initialization.ControlPlaneInitialized {
		return nil, ""
	}
	pods, err := local.PodsOfNodes(ctx, string(a.home), c, cluster)
	if err != nil {
		return nil, oneLine(err.Error(), 200)
	}
	return pods, ""
}

// writePods prints how pods run, with one line for all Nodes where they run in the same way.
func (a *app) writePods(cluster *clusterv1.Cluster, pods []local.NodePods, unknown string) {
	for _, line := range podLines(pods, unknown, topology.AsksForHollow(cluster)) {
		fmt.Fprintln(a.out, line)
	}
}

// podLines describes pods below a tree. asked means that the Cluster asks for hollow pods. Pure.
func podLines(pods []local.NodePods, unknown string, asked bool) []string {
	if unknown != "" {
		return []string{"", "Pods: unknown: " + unknown}
	}
	if len(pods) == 0 {
		return nil
	}
	count := map[string]int{}
	var kinds []string
	for _, p := range pods {
		kind := p.String()
		if p.Hollow && !asked {
			kind += ": to get real pods, replace the machines, for example by an upgrade"
		}
		if count[kind]++; count[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	slices.SortFunc(kinds, strings.Compare)
	lines := []string{""}
	for _, kind := range kinds {
		lines = append(lines, fmt.Sprintf("Pods of %d of %d Nodes: %s", count[kind], len(pods), kind))
	}
	return lines
}
