// Package gates sets the feature gates of Cluster API in a process, by upstream's names.
package gates

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/cluster-api/feature"

	"github.com/capstan-dev/capstan/internal/hint"
)

// Set holds feature gates by their names. A gate that is missing has the value that it would have without the set.
type Set map[string]bool

// Plane returns the gates of a management plane that differ from Cluster API's defaults. Those that Cluster API's own
// end-to-end tests open are open.
func Plane() Set {
	return Set{
		string(feature.ClusterTopology):                true,
		string(feature.RuntimeSDK):                     true,
		string(feature.MachinePool):                    true,
		string(feature.InPlaceUpdates):                 true,
		string(feature.MachineTaintPropagation):        true,
		string(feature.MachineSetPreflightChecks):      true,
		string(feature.KubeadmBootstrapFormatIgnition): true,
		// One reconcile per object and second adds about 8 s of waiting to the chain of steps that creates a cluster.
		// package readyourwrites takes over the guard against stale caches that goes with it:
		// docs/adr/0005-reconcile-without-rate-limit.md.
		string(feature.ReconcilerRateLimiting): false,
		// The priority queue of controller-runtime 0.24 can lock up while it is shut down (its issue 3538), and the end
		// of the plane would wait for it.
		string(feature.PriorityQueue): false,
	}
}

// Manager returns the gates of the provider's manager that differ from Cluster API's defaults.
func Manager() Set {
	return Set{
		string(feature.ClusterTopology):        true,
		string(feature.PriorityQueue):          false, // see Plane
		string(feature.ReconcilerRateLimiting): false, // needs the priority queue, and is for upstream's reconcilers
	}
}

// needs are the gates that work with another one only: Cluster API ends with an error without it.
var needs = map[string]string{
	string(feature.InPlaceUpdates):         string(feature.RuntimeSDK),
	string(feature.ReconcilerRateLimiting): string(feature.PriorityQueue),
}

// Known returns the names of all gates, sorted.
func Known() []string {
	all := feature.MutableGates.GetAll()
	delete(all, "AllAlpha")
	delete(all, "AllBeta")
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, string(name))
	}
	slices.Sort(names)
	return names
}

// Parse reads gates as Cluster API's managers do: NAME=true,NAME=false. An empty text is an empty set.
func Parse(text string) (Set, error) {
	s := Set{}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, value, ok := strings.Cut(item, "=")
		name = strings.TrimSpace(name)
		on, err := strconv.ParseBool(strings.TrimSpace(value))
		if !ok || err != nil {
			return nil, hint.Errorf("write "+name+"=true or "+name+"=false", "feature gate %q has no value", item)
		}
		if before, twice := s[name]; twice && before != on {
			return nil, hint.Errorf("name it once", "feature gate %s is set to true and to false", name)
		}
		s[name] = on
	}
	return s, s.check()
}

// check returns an error that names a gate that does not exist.
func (s Set) check() error {
	known := Known()
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if !slices.Contains(known, name) {
			return hint.Errorf("choose from "+strings.Join(known, ", "), "there is no feature gate %q", name)
		}
	}
	return nil
}

// With returns the value of every gate in a process whose own defaults are s, after the user's changes. A gate that
// needs another one follows it, and takes it along, unless the changes say otherwise: that is an error.
func (s Set) With(changes Set) (Set, error) {
	if err := changes.check(); err != nil {
		return nil, err
	}
	all := Set{}
	for name, spec := range feature.MutableGates.GetAll() {
		all[string(name)] = spec.Default
	}
	delete(all, "AllAlpha")
	delete(all, "AllBeta")
	maps.Copy(all, s)
	maps.Copy(all, changes)
	for gate, needed := range needs {
		if !all[gate] || all[needed] {
			continue
		}
		_, wanted := changes[gate]
		_, refused := changes[needed]
		switch {
		case wanted && refused:
			return nil, hint.Errorf("open both or close both", "feature gate %s needs %s", gate, needed)
		case wanted:
			all[needed] = true
		default:
			all[gate] = false
		}
	}
	return all, nil
}

// Open sets the gates of this process. It must come before any index or reconciler is made: they ask only once.
func (s Set) Open() error {
	if err := feature.MutableGates.SetFromMap(s); err != nil {
		return fmt.Errorf("setting Cluster API's feature gates: %w", err)
	}
	return nil
}

// On reports whether a gate of a set that With returned is open.
func (s Set) On(gate featuregate.Feature) bool { return s[string(gate)] }

// String returns what Parse reads, sorted by name.
func (s Set) String() string {
	items := make([]string, 0, len(s))
	for _, name := range slices.Sorted(maps.Keys(s)) {
		items = append(items, name+"="+strconv.FormatBool(s[name]))
	}
	return strings.Join(items, ",")
}
