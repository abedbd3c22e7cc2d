package upgradeplan_test

import (
	"fmt"

	"github.com/capstan-dev/capstan/runtime/upgradeplan"
)

func ExampleCompute() {
	plan, err := upgradeplan.Compute("v1.32.6", "v1.32.6", "v1.36.3",
		[]string{"v1.33.2", "v1.34.4", "v1.35.1", "v1.35.4", "v1.36.3"})
	fmt.Println(plan.ControlPlane, plan.Workers, err)
	// Output: [v1.33.2 v1.34.4 v1.35.4 v1.36.3] [v1.35.4 v1.36.3] <nil>
}
