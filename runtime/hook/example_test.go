package hook_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/runtime/hook"
)

// A provider defines its own hook, and a catalog that contains this hook and those of Cluster API.
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

// An extension on an older version of a hook is still called: the catalog converts in both directions.
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

// A deprecated version stays callable for as long as rule 4 requires; documents, conditions and metrics show who still
// uses it.
func ExampleAbout() {
	newest := hook.Define[ping, pong](schema.GroupVersion{Group: "hooks.example.org", Version: "v1"}, "BeforePowerOff")
	older := hook.Define[ping, pong](schema.GroupVersion{Group: "hooks.example.org", Version: "v1beta1"}, "BeforePowerOff")
	versions := hook.Serves(newest, older,
		func(newest, older *ping) error { older.Text = newest.Text; return nil },
		func(older, newest *pong) error { newest.CommonRetryResponse = older.CommonRetryResponse; return nil },
	)
	catalog, err := hook.NewCatalog(newest, versions,
		hook.About(older, hook.Facts{Deprecated: "v1.10", RemovedIn: "v1.12", ReplacedBy: "v1"}))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(catalog.Facts(older.ID()).Advice())

	_, err = hook.NewCatalog(newest, versions, hook.About(older,
		hook.Facts{Deprecated: "v1.10", RemovedIn: "v1.11", ReplacedBy: "v1"}))
	fmt.Println(err)
	// Output:
	// deprecated since v1.10, removed in v1.12; use v1
	// building a catalog of hooks: hook hooks.example.org/v1beta1/BeforePowerOff: it is deprecated in v1.10 and removed in v1.11: a beta version stays for 2 releases and 6 months (RS-06)
}
