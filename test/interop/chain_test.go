package interop

import (
	"log/slog"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/exp/topology/desiredstate"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/cache"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/part"
	"github.com/capstan-dev/capstan/extension/part/parttest"
	"github.com/capstan-dev/capstan/extension/plan"
	"github.com/capstan-dev/capstan/runtime/hooktest"
)

// TestAChainedUpgradeWithTheShippedExtension upgrades over four minor versions, like Cluster API's topology reconciler:
// at each step, it calls the shipped extension again with the current versions, checks the plan, and takes the first
// step. In the end everything has the target version, workers were replaced twice, and they were never further behind
// than Kubernetes allows.
func TestAChainedUpgradeWithTheShippedExtension(t *testing.T) {
	if err := feature.MutableGates.SetFromMap(map[string]bool{string(feature.RuntimeSDK): true}); err != nil {
		t.Fatal(err)
	}
	world := parttest.NewWorld(0)
	for name, versions := range map[string][]string{
		"a": {"v1.32.4", "v1.33.1", "v1.34.8"}, "b": {"v1.34.2", "v1.35.4", "v1.36.3"},
	} {
		world.Hosts = append(world.Hosts, infrav1.CapstanHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Status:     infrav1.CapstanHostStatus{KubernetesVersions: versions},
		})
	}
	handlers, err := part.Handlers(slog.New(slog.DiscardHandler), plan.New(world))
	if err != nil {
		t.Fatal(err)
	}
	cluster := parttest.NewCluster("blue", 1, 2)
	generate := desiredstate.GetUpgradePlanFromExtension(
		hooktest.Start(t, handlers...).Client,
		cache.New[desiredstate.GenerateUpgradePlanCacheEntry](
			t.Context(),
			cache.DefaultTTL,
		),
		&cluster,
		"upgrade-plan."+hooktest.Name,
	)

	const target = "v1.36.3"
	controlPlane, workers := "v1.32.4", "v1.32.4"
	var went []string
	for range 10 {
		if controlPlane == target && workers == target {
			break
		}
		steps, workersSteps, err := generate(t.Context(), target, controlPlane, workers)
		if err != nil {
			t.Fatalf("from %s, workers %s: %v", controlPlane, workers, err)
		}
		steps, err = check(target, controlPlane, workers, steps, &workersSteps)
		if err != nil {
			t.Fatalf("Cluster API refuses the plan from %s, workers %s: %v", controlPlane, workers, err)
		}
		switch {
		case len(workersSteps) > 0 && workersSteps[0] == controlPlane: // workers come before the next step
			workers = workersSteps[0]
			went = append(went, "workers "+workers)
		default:
			controlPlane = steps[0]
			went = append(went, "control plane "+controlPlane)
		}
	}
	want := []string{
		"control plane v1.33.1", "control plane v1.34.8", "control plane v1.35.4", "workers v1.35.4", "control plane v1.36.3",
		"workers v1.36.3",
	}
	if !slices.Equal(went, want) {
		t.Errorf("the upgrade took the steps %q, want %q", went, want)
	}
	t.Attr("rule", "UH-06")
}

// check validates a plan like Cluster API, and returns the plan's steps.
func check(target, controlPlane, workers string, steps []string, workersSteps *[]string) ([]string, error) {
	defaulted, err := desiredstate.DefaultAndValidateUpgradePlans(target, controlPlane, workers, steps, *workersSteps)
	if err != nil {
		return nil, err
	}
	*workersSteps = defaulted
	return steps, nil
}
