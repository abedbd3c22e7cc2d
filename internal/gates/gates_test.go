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
		"nothing": {"", gates.Set{}, ""},
		"two gates": {
			"RuntimeSDK=false,MachinePool=true",
			gates.Set{"RuntimeSDK": false, "MachinePool": true},
			"",
		},
		"spaces and a comma too many":  {" RuntimeSDK = 0 ,", gates.Set{"RuntimeSDK": false}, ""},
		"the same twice":               {"RuntimeSDK=true,RuntimeSDK=true", gates.Set{"RuntimeSDK": true}, ""},
		"a gate that does not exist":   {"RuntimeSdk=true", nil, `there is no feature gate "RuntimeSdk"`},
		"a gate of all alpha gates":    {"AllAlpha=true", nil, `there is no feature gate "AllAlpha"`},
		"a gate without a value":       {"RuntimeSDK", nil, `feature gate "RuntimeSDK" has no value`},
		"a value that is none":         {"RuntimeSDK=maybe", nil, `feature gate "RuntimeSDK=maybe" has no value`},
		"a gate with two values":       {"RuntimeSDK=true,RuntimeSDK=false", nil, "is set to true and to false"},
		"a value without a gate":       {"=true", nil, `there is no feature gate ""`},
		"a gate of Kubernetes' own":    {"SidecarContainers=true", nil, "there is no feature gate"},
		"a known gate after a bad one": {"x=true,RuntimeSDK=true", nil, `there is no feature gate "x"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := gates.Parse(c.text)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || hint.Of(err) == "" {
					t.Fatalf("error %v with hint %q, want one with %q", err, hint.Of(err), c.err)
				}
				return
			}
			if err != nil || !maps.Equal(got, c.want) {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
			if again, err := gates.Parse(got.String()); err != nil || !maps.Equal(again, got) {
				t.Errorf("%q is read as %v, %v", got.String(), again, err)
			}
		})
	}
}

func TestWith(t *testing.T) {
	cases := map[string]struct {
		defaults, changes, want gates.Set // want: only the gates it names
		err                     string
	}{
		"a plane opens what upstream's end-to-end tests open": {gates.Plane(), nil, gates.Set{
			"ClusterTopology": true, "RuntimeSDK": true, "MachinePool": true, "InPlaceUpdates": true,
			"MachineTaintPropagation": true, "MachineSetPreflightChecks": true, "KubeadmBootstrapFormatIgnition": true,
			"ReconcilerRateLimiting": false, "PriorityQueue": false,
		}, ""},
		"upstream's defaults are what nobody names": {gates.Set{}, nil, gates.Set{
			"ClusterTopology": false, "RuntimeSDK": false, "PriorityQueue": true,
		}, ""},
		"a change counts": {
			gates.Plane(),
			gates.Set{"MachinePool": false},
			gates.Set{"MachinePool": false, "RuntimeSDK": true},
			"",
		},
		"what needs a closed gate is closed": {
			gates.Plane(),
			gates.Set{"RuntimeSDK": false},
			gates.Set{"RuntimeSDK": false, "InPlaceUpdates": false},
			"",
		},
		"what an opened gate needs is opened": {
			gates.Plane(),
			gates.Set{"ReconcilerRateLimiting": true},
			gates.Set{"ReconcilerRateLimiting": true, "PriorityQueue": true},
			"",
		},
		"a gate may be closed alone": {
			gates.Plane(),
			gates.Set{"InPlaceUpdates": false},
			gates.Set{"RuntimeSDK": true, "InPlaceUpdates": false},
			"",
		},
		"a contradiction is an error": {gates.Plane(), gates.Set{"RuntimeSDK": false, "InPlaceUpdates": true}, nil,
			"feature gate InPlaceUpdates needs RuntimeSDK"},
		"a gate that an older release has kept": {
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
					t.Fatalf("error %v with hint %q, want one with %q", err, hint.Of(err), c.err)
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
