// Package checks holds the checks of capstan verify as a table of values. Each value names its rules in the catalogue.
// The checks in [All] examine files; those in [Live] drive a provider.
package checks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
)

const (
	v1beta1 = "v1beta1"
	v1beta2 = "v1beta2"
)

var contracts = []string{v1beta1, v1beta2}

// The pages of the book.
const (
	machinePage      = "infra-machine"
	clusterPage      = "infra-cluster"
	poolPage         = "infra-machinepool"
	controlPlanePage = "control-plane"
	bootstrapPage    = "bootstrap-config"
	clusterctlPage   = "clusterctl"
)

// All returns all checks of files, by topic. The caller may change the slice but not the checks.
func All() []*check.Check {
	return slices.Concat(definitionChecks, labelChecks, machineChecks, clusterChecks, poolChecks,
		bootstrapChecks, controlPlaneChecks, templateChecks, rightChecks,
		metadataChecks, componentChecks, workloadChecks, againstChecks, readinessChecks,
		webhookChecks, schemaChecks, variableChecks, extensionChecks, classChecks,
		patchChecks, variableOfClassChecks, shouldChecks, defaultChecks, offerChecks)
}

// Find returns the check with an id, or the checks of the rule with that id, checks of files first. It returns nil if
// there is none.
func Find(id string) []*check.Check {
	var found []*check.Check
	for _, c := range append(All(), liveChecks...) {
		if c.ID == id || slices.Contains(c.Rules, id) {
			found = append(found, c)
		}
	}
	return found
}

// LevelError reports an unknown level.
type LevelError struct{ Level string }

// Error names the level.
func (e *LevelError) Error() string { return fmt.Sprintf("unknown level %q", e.Level) }

// Hint names the levels that exist.
func (e *LevelError) Hint() string { return "use must or should" }

// AtLeast returns the checks of a level and above. For should these are all checks; for must they are the checks of
// binding rules.
func AtLeast(level string) ([]*check.Check, error) {
	switch strings.ToLower(level) {
	case "should":
		return All(), nil
	case "must":
		return slices.DeleteFunc(All(), func(c *check.Check) bool { return c.Level != check.Must }), nil
	}
	return nil, &LevelError{level}
}

// sortedKeys returns the keys of a map, sorted.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
