package rules_test

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/rules"
)

// The newest version is like BeforeClusterUpgrade, the older one like BeforeClusterCreate, which has fewer fields.
type (
	newRequest  = runtimehooksv1.BeforeClusterUpgradeRequest
	newResponse = runtimehooksv1.BeforeClusterUpgradeResponse
	oldRequest  = runtimehooksv1.BeforeClusterCreateRequest
	oldResponse = runtimehooksv1.BeforeClusterCreateResponse
)

func down(n *newRequest, o *oldRequest) error {
	o.Settings, o.Cluster = n.Settings, n.Cluster
	return nil
}

func up(o *oldResponse, n *newResponse) error {
	n.CommonRetryResponse = o.CommonRetryResponse
	return nil
}

func catalog(t testing.TB, down func(*newRequest, *oldRequest) error,
	up func(*oldResponse, *newResponse) error) *hook.Catalog {
	t.Helper()
	newest := hook.Define[newRequest, newResponse](schema.GroupVersion{Group: "hooks.example.org", Version: "v2"},
		"BeforePowerOff")
	older := hook.Define[oldRequest, oldResponse](schema.GroupVersion{Group: "hooks.example.org", Version: "v1"},
		"BeforePowerOff")
	c, err := hook.NewCatalog(newest, hook.Serves(newest, older, down, up))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Rule 2: conversions that lose what they must not lose are found (RS-03, RS-04).
func TestConversions(t *testing.T) {
	for name, c := range map[string]struct {
		down func(*newRequest, *oldRequest) error
		up   func(*oldResponse, *newResponse) error
		want string
	}{
		"valid conversions": {down, up, ""},
		"a down conversion that loses the settings": {
			func(n *newRequest, o *oldRequest) error { o.Cluster = n.Cluster; return nil }, up,
			"the settings are lost (RS-03)",
		},
		"a down conversion that fails": {func(n *newRequest, o *oldRequest) error { return errors.New("no way") }, up,
			"no way (RS-03)"},
		"a down conversion that panics": {
			func(n *newRequest, o *oldRequest) error { var none *string; o.Cluster.Name = *none; return nil }, up, "panicked",
		},
		"a down conversion that changes its input": {
			func(n *newRequest, o *oldRequest) error { n.FromKubernetesVersion += "x"; return down(n, o) }, up,
			"changes what it converts",
		},
		"an up conversion that loses a wait": {
			down, func(o *oldResponse, n *newResponse) error { n.CommonResponse = o.CommonResponse; return nil },
			"retryAfterSeconds is lost",
		},
		"an up conversion that loses the message": {
			down, func(o *oldResponse, n *newResponse) error { n.Status = o.Status; return nil },
			"status or message are lost",
		},
		"an up conversion that turns each answer into Success": {
			down, func(o *oldResponse, n *newResponse) error { _ = up(o, n); n.Status = "Success"; return nil },
			"status or message are lost",
		},
		"an up conversion that is not deterministic": {down, moody(), "not deterministic"},
	} {
		var err error
		for seed := range int64(20) {
			if err = rules.Conversions(catalog(t, c.down, c.up), seed); err != nil {
				break
			}
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error is %v, want %q", name, err, c.want)
		}
		switch name {
		case "a down conversion that loses the settings", "a down conversion that changes its input":
			t.Attr("rule", "RS-03")
		case "an up conversion that loses a wait", "an up conversion that turns each answer into Success":
			t.Attr("rule", "RS-04")
		}
	}
}

func moody() func(*oldResponse, *newResponse) error {
	calls := 0
	return func(o *oldResponse, n *newResponse) error {
		calls++
		n.CommonRetryResponse = o.CommonRetryResponse
		n.RetryAfterSeconds += int32(calls)
		return nil
	}
}

// FuzzConversions shows how an author of hooks tests rule 2.
func FuzzConversions(f *testing.F) {
	c := catalog(f, down, up)
	f.Add(int64(1))
	f.Fuzz(func(t *testing.T, seed int64) {
		if err := rules.Conversions(c, seed); err != nil {
			t.Error(err)
		}
	})
}
