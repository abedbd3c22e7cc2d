package checks

import (
	"slices"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

// migrationPage is where the book lists what changes for providers.
const migrationPage = "https://cluster-api.sigs.k8s.io/developer/providers/migrations/overview"

var readinessChecks = []*check.Check{
	{
		ID: "readiness", Level: check.Should, Contracts: []string{v1beta1}, Page: migrationPage,
		Doc: "The provider does not depend on contract v1beta1.",
		Why: "Cluster API v1.16 (April 2027) no longer reads contract v1beta1. A provider that depends on this " +
			"contract stops working with v1.16.",
		Fix: "Add an API version for contract v1beta2. In this version, replace status.ready with " +
			"status.initialization.provisioned, use []metav1.Condition for conditions, and leave the namespace out of " +
			"references. Convert between the versions. Name the new version in the label cluster.x-k8s.io/v1beta2, and " +
			"contract v1beta2 in metadata.yaml.",
		Rules: []string{"RV-09"}, Needs: []check.Need{check.Components}, Run: readiness,
	},
	{
		ID: "readiness-fields", Level: check.Should, Contracts: []string{v1beta2}, Page: migrationPage,
		Doc:   "An API version for contract v1beta2 has no fields that only contract v1beta1 had.",
		Why:   "Core v1.16 ignores these fields. Users who read them see values that have no effect.",
		Fix:   "Report failures as conditions. Until you remove the old fields, keep them below status.deprecated.v1beta1.",
		Rules: []string{"RV-10"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{
			machine: "RV-10", cluster: "RV-10", controlPlane: "RV-10", config: "RV-10", pool: "RV-10",
		}.eachSchema(readinessFields),
	},
}

func readiness(p *check.Pass) {
	if s := own(p); s != nil && s.contract == v1beta1 {
		p.Broken("RV-09", v1beta1, s.object, append(s.path, "contract"), "series %d.%d names contract v1beta1",
			s.major, s.minor)
	}
	for _, r := range resources(p) {
		if r.Newest(v1beta1) != "" && r.Newest(v1beta2) == "" {
			_, key := r.Contract(v1beta1)
			p.Broken("RV-09", v1beta1, r.Object, labelPath(key), "%s implements contract v1beta1 only", r.kind())
		}
	}
	for _, role := range []source.Role{source.Template, source.Class} {
		for _, f := range p.Release.Of(role) {
			old := slices.DeleteFunc(slices.Clone(f.Objects), func(o *source.Object) bool {
				return !isCore(o.Group()) || o.Version() != v1beta1
			})
			if len(old) > 0 { // one finding per file, because its objects change together
				p.Broken("RV-09", v1beta1, old[0], []string{"apiVersion"},
					"%d of %d objects of the file use API version v1beta1 of Cluster API; the first is a %s", len(old),
					len(f.Objects), old[0].Kind())
			}
		}
	}
}

// isCore reports whether an API group follows Cluster API's own versions.
func isCore(group string) bool {
	return slices.Contains([]string{
		"cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io", "addons.cluster.x-k8s.io",
	}, group)
}

func readinessFields(s subject) {
	if s.contract != v1beta2 {
		return
	}
	for _, name := range []string{"failureReason", "failureMessage", "v1beta2"} {
		if field, ok := s.schema.Property("status", name); ok {
			s.broken(field.Path, "status.%s of %s belongs to contract v1beta1", name, s.kind())
		}
	}
}
