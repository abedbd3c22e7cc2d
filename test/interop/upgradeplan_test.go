package interop

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"sigs.k8s.io/cluster-api/exp/topology/desiredstate"

	"github.com/capstan-dev/capstan/runtime/upgradeplan"
)

// TestClusterAPITakesComputedUpgradePlans: whatever versions exist, Cluster API accepts the plans that the Runtime SDK
// computes (UH-06).
func TestClusterAPITakesComputedUpgradePlans(t *testing.T) {
	const seed, rounds = 7, 5000
	random := rand.New(rand.NewPCG(seed, seed))
	computed := 0
	for range rounds {
		var available []string
		for minor := 28; minor < 40; minor++ {
			for range random.IntN(4) {
				available = append(available, fmt.Sprintf("v1.%d.%d", minor, random.IntN(12)))
			}
		}
		if len(available) == 0 {
			continue
		}
		pick := func() string { return available[random.IntN(len(available))] }
		controlPlane, workers, target := pick(), pick(), pick()
		if random.IntN(8) == 0 {
			workers = ""
		}
		plan, err := upgradeplan.Compute(controlPlane, workers, target, available)
		if err != nil {
			continue // there is no plan
		}
		computed++
		if _, err := desiredstate.DefaultAndValidateUpgradePlans(target, controlPlane, workers, plan.ControlPlane,
			plan.Workers); err != nil {
			t.Errorf("from %s (workers %q) to %s by %v: Cluster API does not accept %+v: %v",
				controlPlane, workers, target, available, plan, err)
		}
	}
	t.Attr("rule", "UH-06")
	if computed < rounds/50 {
		t.Errorf("only %d plans were computed, too few for this test", computed)
	}
}
