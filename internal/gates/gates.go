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

// Set holds feature gates by name. A missing gate keeps the value that it would have without the set.
type Set map[string]bool

// Plane returns the gates of a management plane that differ from Cluster API's defaults. It enables the gates that
// Cluster API's own end-to-end tests enable.
func Plane() Set {
	return Set{
		string(feature.ClusterTopology):                true,
		string(feature.RuntimeSDK):                     true,
		string(feature.MachinePool):                    true,
		string(feature.InPlaceUpdates):                 true,
		string(feature.MachineTaintPropagation):        true,
		string(feature.MachineSetPreflightChecks):      true,
		string(feature.KubeadmBootstrapFormatIgnition): true,
		// The limit of one reconcile per object and second adds about 8 s of waiting to the creation of a cluster. The
		// limit also protects against stale caches; package readyourwrites replaces that protection:
		// docs/adr/0005-reconcile-without-rate-limit.md.
		string(feature.ReconcilerRateLimiting): false,
		// The priority queue of controller-runtime 0.24 can deadlock during shutdown (its issue 3538), which would
		// block the shutdown of the plane.
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

// needs maps a gate to the gate that it depends on. Cluster API exits with an error if that other gate is off.
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

// Parse reads gates in the form of Cluster API's managers: NAME=true,NAME=false. An empty text is an empty set.
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

// check returns an error if a gate does not exist.
func (s Set) check() error {
	known := Known()
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if !slices.Contains(known, name) {
			return hint.Errorf("choose from "+strings.Join(known, ", "), "there is no feature gate %q", name)
		}
	}
	return nil
}

// With returns the value of every gate in a process with the defaults s, after the user's changes. Opening a gate also
// opens the gate that it depends on; closing a gate also closes the gates that depend on it. Contradictory changes are
// an error.
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

// Open sets the gates of this process. Call it before creating any index or reconciler: they read the gates only once.
func (s Set) Open() error {
	if err := feature.MutableGates.SetFromMap(s); err != nil {
		return fmt.Errorf("setting Cluster API's feature gates: %w", err)
	}
	return nil
}

// On reports whether a gate is enabled. The set must be a result of With.
func (s Set) On(gate featuregate.Feature) bool { return s[string(gate)] }

// String returns the set in the format of Parse, sorted by name.
func (s Set) String() string {
	items := make([]string, 0, len(s))
	for _, name := range slices.Sorted(maps.Keys(s)) {
		items = append(items, name+"="+strconv.FormatBool(s[name]))
	}
	return strings.Join(items, ",")
}
