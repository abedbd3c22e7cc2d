package checks

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/version"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

// The rules about the labels of each role.
var (
	labelRules = ruleOf{
		machine: "IM-35", machineTemplate: "IMT-11", cluster: "IC-08", clusterTemplate: "ICT-08",
		controlPlane: "CP-05", controlPlaneTemplate: "CP-05", config: "BP-05", configTemplate: "BP-05", pool: "MP-05",
		poolTemplate: "MP-05",
	}
	labelVersionRules = ruleOf{
		machine: "IM-36", machineTemplate: "IMT-11", cluster: "IC-09", clusterTemplate: "ICT-08",
		controlPlane: "CP-06", controlPlaneTemplate: "CP-06", config: "BP-06", configTemplate: "BP-06", pool: "MP-06",
		poolTemplate: "MP-06",
	}
)

var labelChecks = []*check.Check{
	{
		ID: "contract-label", Level: check.Must, Contracts: contracts, Page: machinePage + "#all-resources-version",
		Doc: "Each definition that core reads has a contract label, which names the definition's API versions that " +
			"implement a contract version.",
		Why: "Without the label, core finds no version for its references, and clusters of the provider never come " +
			"up.",
		Fix:   "Add the label cluster.x-k8s.io/v1beta2 with the API versions that implement that contract.",
		Rules: labelRules.ids(), Needs: []check.Need{check.Definitions},
		Run: labelRules.each(contractLabel),
	},
	{
		ID: "contract-label-versions", Level: check.Must, Contracts: contracts, Page: machinePage + "#all-resources-version",
		Doc:   "The API version that core takes from a contract label is served.",
		Why:   "If the version is not served, core asks the API server for it in vain.",
		Fix:   "Correct the label, or serve the version.",
		Rules: labelVersionRules.ids(), Needs: []check.Need{check.Definitions},
		Run: labelVersionRules.each(contractLabelVersions),
	},
	{
		ID: "contract-label-left-over", Level: check.Should, Contracts: contracts,
		Page: machinePage + "#all-resources-version",
		Doc: "A contract label names only API versions that are served. If the label names several versions, core reads " +
			"only the newest. The older ones should be served, too.",
		Why: "Cluster API's own code works even if the label names an older version that is not served, but other " +
			"readers of the label may take that version.",
		Fix:   "In the label, remove the version that is not served.",
		Rules: []string{"RV-21"}, Needs: []check.Need{check.Definitions}, Run: contractLabelLeftOver,
	},
	{
		ID: "contract-label-once", Fixes: true, Level: check.Must, Contracts: contracts,
		Page: machinePage + "#all-resources-version",
		Doc: "If the labels of both contracts name the same API version, that version has the fields of both " +
			"contracts. Each label lists its versions in ascending order.",
		Why: "Core takes the highest version of a label, while Cluster API's book says that core takes the last one. " +
			"If both labels name the same version, core may read that version under a contract whose fields the version " +
			"lacks.",
		Fix: "Write the versions in ascending order, and list a version only in the label of a contract that the version " +
			"implements.",
		Rules: []string{"IM-37", "IC-10"}, Needs: []check.Need{check.Definitions},
		Run: contractLabelOnce,
	},
}

// versionPath is the path of a field of a version of a definition.
func versionPath(i int, names ...string) []string {
	return append([]string{"spec", "versions", strconv.Itoa(i)}, names...)
}

// labelPath is the path of a label.
func labelPath(key string) []string { return []string{"metadata", "labels", key} }

func contractLabel(s subject) {
	if s.Newest(v1beta1) == "" && s.Newest(v1beta2) == "" {
		s.broken([]string{"metadata", "labels"}, "the definition of %s has no label of a contract that core accepts",
			s.kind())
	}
}

func contractLabelVersions(s subject) {
	for _, contract := range contracts {
		versions, key := s.Contract(contract)
		s.contract = contract
		for _, name := range versions {
			if !isServed(s.Definition, name) && !isLeftOver(s.resource, name, contract) {
				s.broken(labelPath(key), "the label names version %q of %s, which is not served", name, s.kind())
			}
		}
	}
}

// isLeftOver reports whether core reads another version of the label than this one, and that other version is served.
func isLeftOver(r resource, name, contract string) bool {
	newest := r.Newest(contract)
	return name != newest && isServed(r.Definition, newest)
}

func contractLabelLeftOver(p *check.Pass) {
	for _, r := range resources(p) {
		for _, contract := range contracts {
			versions, key := r.Contract(contract)
			for _, name := range versions {
				if !isServed(r.Definition, name) && isLeftOver(r, name, contract) {
					p.Broken("RV-21", contract, r.Object, labelPath(key),
						"the label still names version %q of %s, which is not served", name, r.kind())
				}
			}
		}
	}
}

func isServed(d *source.Definition, name string) bool {
	for _, v := range d.CRD.Spec.Versions {
		if v.Name == name {
			return v.Served
		}
	}
	return false
}

func contractLabelOnce(p *check.Pass) {
	for _, r := range resources(p) {
		if name, lacks := halfOfBoth(r); lacks != "" {
			_, key := r.Contract(v1beta2)
			p.Broken("IM-37", "", r.Object, labelPath(key),
				"the labels of both contracts name version %s of %s, but this version has no %s", name, r.kind(), lacks)
		}
		for _, contract := range contracts {
			versions, key := r.Contract(contract)
			if !slices.IsSortedFunc(versions, version.CompareKubeAwareVersionStrings) {
				p.Broken("IC-10", contract, r.Object, labelPath(key), "the label of %s is not in ascending order: %s", r.kind(),
					strings.Join(versions, ", "))
				slices.SortFunc(versions, version.CompareKubeAwareVersionStrings)
				p.Replace(r.Object, labelPath(key), strings.Join(versions, "_"))
			}
		}
	}
}

// halfOfBoth returns the version that core reads for both contracts, and the field of one contract that it lacks. Both
// are empty if core reads two versions, or one version with the fields of both.
func halfOfBoth(r resource) (name, lacks string) {
	name = r.Newest(v1beta2)
	if name == "" || name != r.Newest(v1beta1) || r.role != machine && r.role != cluster {
		return "", ""
	}
	schema, ok := r.Schema(name)
	if !ok {
		return "", ""
	}
	for _, path := range [][]string{{"status", "ready"}, {"status", "initialization", "provisioned"}} {
		if _, ok := schema.Property(path...); !ok {
			return name, strings.Join(path, ".")
		}
	}
	return "", ""
}
