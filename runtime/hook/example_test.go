package hook_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/runtime/hook"
)

// A provider defines a hook of its own, and a catalog that holds it beside those of Cluster API.
func ExampleDefine() {
	group := schema.GroupVersion{Group: "hooks.example.org", Version: "v1"}
	beforePowerOff := hook.Define[ping, pong](group, "BeforePowerOff")

	catalog, err := hook.NewCatalog(append(hook.ClusterAPIHooks(), beforePowerOff)...)
	if err != nil {
		fmt.Println(err)
		return
	}
	d, _ := catalog.Get(beforePowerOff.ID())
	fmt.Println(d.ID, d.RequestKind, d.CanWait)
	fmt.Println(d.ID.Path("save-state"))
	// Output:
	// hooks.example.org/v1/BeforePowerOff BeforePowerOffRequest true
	// /hooks.example.org/v1/beforepoweroff/save-state
}

// An extension on an older version of a hook is still called: the catalog knows the way there and back.
func ExampleServes() {
	newest := hook.Define[ping, pong](schema.GroupVersion{Group: "hooks.example.org", Version: "v2"}, "BeforePowerOff")
	older := hook.Define[ping, pong](schema.GroupVersion{Group: "hooks.example.org", Version: "v1"}, "BeforePowerOff")

	_, err := hook.NewCatalog(newest, hook.Serves(newest, older,
		func(newest, older *ping) error { older.Text = newest.Text; return nil },
		func(older, newest *pong) error { newest.CommonRetryResponse = older.CommonRetryResponse; return nil },
	))
	fmt.Println(err)
	// Output: <nil>
}
