package gates_test

import (
	"maps"
	"strings"
	"testing"

	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/cluster-api/feature"

	"github.com/capstan-dev/capstan/internal/gates"
	"github.com/capstan-dev/capstan/internal/hint"
)

func TestParse(t *testing.T) {
	cases := map[string]struct {
		text string
		want gates.Set
		err  string
	}{
		"an empty text": {"", gates.Set{}, ""},
		"two gates": {
			"RuntimeSDK=false,MachinePool=true",
			gates.Set{"RuntimeSDK": false, "MachinePool": true},
			"",
		},
		"additional spaces and a comma": {" RuntimeSDK = 0 ,", gates.Set{"RuntimeSDK": false}, ""},
		"the same gate twice":           {"RuntimeSDK=true,RuntimeSDK=true", gates.Set{"RuntimeSDK": true}, ""},
		"a gate that does not exist":    {"RuntimeSdk=true", nil, `there is no feature gate "RuntimeSdk"`},
		"the gate for all alpha gates":  {"AllAlpha=true", nil, `there is no feature gate "AllAlpha"`},
		"a gate without a value":        {"RuntimeSDK", nil, `feature gate "RuntimeSDK" has no value`},
		"an invalid value":              {"RuntimeSDK=maybe", nil, `feature gate "RuntimeSDK=maybe" has no value`},
		"a gate with two values":        {"RuntimeSDK=true,RuntimeSDK=false", nil, "is set to true and to false"},
		"a value without a gate":        {"=true", nil, `there is no feature gate ""`},
		"a gate of Kubernetes":          {"SidecarContainers=true", nil, "there is no feature gate"},
		"a known gate after a bad one":  {"x=true,RuntimeSDK=true", nil, `there is no feature gate "x"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := gates.Parse(c.text)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || hint.Of(err) == "" {
					t.Fatalf("got error %v with hint %q, want one with %q", err, hint.Of(err), c.err)
				}
				return
			}
			if err != nil || !maps.Equal(got, c.want) {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
			if again, err := gates.Parse(got.String()); err != nil || !maps.Equal(again, got) {
				t.Errorf("the text form %q was parsed as %v, error %v", got.String(), again, err)
			}
		})
	}
}

func TestWith(t *testing.T) {
	cases := map[string]struct {
		defaults, changes, want gates.Set // want names only some gates
		err                     string
	}{
		"a plane opens what upstream's end-to-end tests open": {gates.Plane(), nil, gates.Set{
			"ClusterTopology": true, "RuntimeSDK": true, "MachinePool": true, "InPlaceUpdates": true,
			"MachineTaintPropagation": true, "MachineSetPreflightChecks": true, "KubeadmBootstrapFormatIgnition": true,
			"ReconcilerRateLimiting": false, "PriorityQueue": false,
		}, ""},
		"gates that are not set have upstream's defaults": {gates.Set{}, nil, gates.Set{
			"ClusterTopology": false, "RuntimeSDK": false, "PriorityQueue": true,
		}, ""},
		"a change overrides the default": {
			gates.Plane(),
			gates.Set{"MachinePool": false},
			gates.Set{"MachinePool": false, "RuntimeSDK": true},
			"",
		},
		"gates that depend on a closed gate are closed": {
			gates.Plane(),
			gates.Set{"RuntimeSDK": false},
			gates.Set{"RuntimeSDK": false, "InPlaceUpdates": false},
			"",
		},
		"a gate that an opened one depends on is opened": {
			gates.Plane(),
			gates.Set{"ReconcilerRateLimiting": true},
			gates.Set{"ReconcilerRateLimiting": true, "PriorityQueue": true},
			"",
		},
		"a gate on which no other depends is closed alone": {
			gates.Plane(),
			gates.Set{"InPlaceUpdates": false},
			gates.Set{"RuntimeSDK": true, "InPlaceUpdates": false},
			"",
		},
		"a contradiction is an error": {gates.Plane(), gates.Set{"RuntimeSDK": false, "InPlaceUpdates": true}, nil,
			"feature gate InPlaceUpdates needs RuntimeSDK"},
		"a gate that does not exist in this release": {
			gates.Plane(),
			gates.Set{"Gone": true},
			nil,
			`there is no feature gate "Gone"`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := c.defaults.With(c.changes)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || hint.Of(err) == "" {
					t.Fatalf("got error %v with hint %q, want one with %q", err, hint.Of(err), c.err)
				}
				return
			}
			if err != nil || len(got) != len(gates.Known()) {
				t.Fatalf("got %v, %v, want a value for each of %v", got, err, gates.Known())
			}
			for gate, want := range c.want {
				if got[gate] != want {
					t.Errorf("%s is %v, want %v", gate, got[gate], want)
				}
			}
		})
	}
}

func TestOpen(t *testing.T) {
	all, err := gates.Plane().With(gates.Set{"MachinePool": false})
	if err != nil {
		t.Fatal(err)
	}
	if err := all.Open(); err != nil {
		t.Fatal(err)
	}
	for name, want := range all {
		if got := feature.Gates.Enabled(featuregate.Feature(name)); got != want ||
			all.On(featuregate.Feature(name)) != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}
