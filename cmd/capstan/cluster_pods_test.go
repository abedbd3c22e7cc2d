package main

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/local"
)

func TestPodLines(t *testing.T) {
	hollow, actual := local.NodePods{Hollow: true}, local.NodePods{IDs: "one", Limits: "none"}
	for name, c := range map[string]struct {
		pods    []local.NodePods
		unknown string
		asked   bool
		want    string
	}{
		"no Nodes":                    {nil, "", false, ""},
		"the cluster does not answer": {nil, "it is away", false, "\nPods: unknown: it is away"},
		"real pods on all Nodes": {
			[]local.NodePods{actual, actual}, "", false, "\nPods of 2 of 2 Nodes: real, ids one, limits none",
		},
		"hollow pods, for which the Cluster asks": {
			[]local.NodePods{hollow}, "", true, "\nPods of 1 of 1 Nodes: hollow",
		},
		"an older cluster with some machines replaced": {
			[]local.NodePods{actual, hollow, hollow}, "", false,
			"\nPods of 2 of 3 Nodes: hollow: to get real pods, replace the machines, for example by an upgrade\n" +
				"Pods of 1 of 3 Nodes: real, ids one, limits none",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(podLines(c.pods, c.unknown, c.asked), "\n"); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}
