package templates

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"
)

// TestFailedWorkersAreReplaced computes, as a MachineHealthCheck does, how many workers of a group may have failed
// before none is replaced any more.
func TestFailedWorkersAreReplaced(t *testing.T) {
	for _, file := range []string{
		"clusterclass-capstan-local.yaml", "clusterclass-capstan-owned.yaml", "cluster-template-ha.yaml",
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		checks := 0
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			for _, limit := range workerLimits(t, document) {
				checks++
				for _, workers := range []int{1, 2, 3, 10} {
					allowed, err := intstr.GetScaledValueFromIntOrPercent(&limit, workers, false)
					if err != nil || allowed < 1 {
						t.Errorf("%s: of %d workers, at most %d may fail, or none is replaced (%v)", file, workers,
							allowed, err)
					}
				}
				// New Nodes that wait for a network plugin must not be replaced. Local hosts need no plugin.
				allowed, _ := intstr.GetScaledValueFromIntOrPercent(&limit, 3, false)
				if allowed >= 3 && file != "clusterclass-capstan-local.yaml" {
					t.Errorf("%s: three workers of three are replaced", file)
				}
			}
		}
		if checks != 1 {
			t.Errorf("%s has %d health checks of workers", file, checks)
		}
	}
}

// workerLimits returns the maximum numbers of failed workers in the health checks of a document.
func workerLimits(t *testing.T, document string) (limits []intstr.IntOrString) {
	t.Helper()
	all := intstr.FromString("100%") // Cluster API's default
	add := func(limit *intstr.IntOrString) {
		if limit == nil {
			limit = &all
		}
		limits = append(limits, *limit)
	}
	var kind struct{ Kind string }
	if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
		t.Fatal(err)
	}
	switch kind.Kind {
	case "ClusterClass":
		class := &clusterv1.ClusterClass{}
		if err := yaml.UnmarshalStrict([]byte(document), class); err != nil {
			t.Fatal(err)
		}
		for _, workers := range class.Spec.Workers.MachineDeployments {
			add(workers.HealthCheck.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo)
		}
	case "MachineHealthCheck":
		check := &clusterv1.MachineHealthCheck{}
		if err := yaml.UnmarshalStrict([]byte(document), check); err != nil {
			t.Fatal(err)
		}
		if _, is := check.Spec.Selector.MatchLabels[clusterv1.MachineControlPlaneLabel]; !is {
			add(check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo)
		}
	}
	return limits
}
