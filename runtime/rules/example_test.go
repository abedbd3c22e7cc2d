package rules_test

import (
	"fmt"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/rules"
	"github.com/capstan-dev/capstan/runtime/schema"
)

// A provider's test compares its catalog with what was promised: a lock file, or the state before a change.
func ExampleCompare() {
	promised, err := schema.Reflect(hook.ClusterAPI()) // usually rules.ReadLock("hooks.lock.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	now, err := schema.Reflect(hook.ClusterAPI())
	if err != nil {
		fmt.Println(err)
		return
	}
	create := now.Types[now.Hooks["hooks.runtime.cluster.x-k8s.io/v1alpha1/BeforeClusterCreate"].Request]
	delete(create.Fields, "settings")
	for _, finding := range rules.Compare(promised, now, rules.Releases{}) {
		fmt.Println(finding)
	}
	// Output: break RS-01 BeforeClusterCreate: request.settings: the field was removed
}
