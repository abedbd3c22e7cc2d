package checks

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/version"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

var labelChecks = []*check.Check{
	{
		ID: "contract-label", Level: check.Must, Contracts: contracts, Page: machinePage + "#all-resources-version",
		Doc: "Each definition that core reads has a label that names its API versions for a contract version.",
		Why: "Core finds no version for its references, and clusters of the provider never come up.",
		Fix: "Add the label cluster.x-k8s.io/v1beta2 with the API versions that implement that contract.",
		Rules: []string{
			"IM-35",
			"IMT-11",
			"IC-08",
			"ICT-08",
		}, Needs: []check.Need{check.Definitions}, Run: contractLabel,
	},
	{
		ID: "contract-label-versions", Level: check.Must, Contracts: contracts, Page: machinePage + "#all-resources-version",
		Doc:   "Each API version that a contract label names is served.",
		Why:   "Core asks the API server for a version that it does not have.",
		Fix:   "Correct the label, or serve the version.",
		Rules: []string{"IM-36", "IMT-11", "IC-09", "ICT-08"}, Needs: []check.Need{check.Definitions},
		Run: contractLabelVersions,
	},
	{
		ID: "contract-label-once", Level: check.Must, Contracts: contracts, Page: machinePage + "#all-resources-version",
		Doc: "An API version implements one contract version, and the list of a label ascends.",
		Why: "Core takes the highest version where the book says the last one; with two labels it may take the wrong " +
			"contract.",
		Fix:   "Write the versions in ascending order, and name each under one contract only.",
		Rules: []string{"IM-37", "IC-10"}, Needs: []check.Need{check.Definitions}, Run: contractLabelOnce,
	},
}

// versionPath is the path of a field of a version of a definition.
func versionPath(i int, names ...string) []string {
	return append([]string{"spec", "versions", strconv.Itoa(i)}, names...)
}

// labelPath is the path of a label.
func labelPath(key string) []string { return []string{"metadata", "labels", key} }

func contractLabel(p *check.Pass) {
	rules := ruleOf{machine: "IM-35", machineTemplate: "IMT-11", cluster: "IC-08", clusterTemplate: "ICT-08"}
	for _, r := range resources(p) {
		if r.Newest(v1beta1) == "" && r.Newest(v1beta2) == "" {
			p.Broken(rules[r.role], "", r.Object, []string{"metadata", "labels"},
				"the definition of %s has no label of a contract "+
					"that core accepts", r.kind())
		}
	}
}

func contractLabelVersions(p *check.Pass) {
	rules := ruleOf{machine: "IM-36", machineTemplate: "IMT-11", cluster: "IC-09", clusterTemplate: "ICT-08"}
	for _, r := range resources(p) {
		for _, contract := range contracts {
			versions, key := r.Contract(contract)
			for _, name := range versions {
				if !isServed(r.Definition, name) {
					p.Broken(rules[r.role], contract, r.Object, labelPath(key),
						"the label names version %q of %s, which is not served",
						name, r.kind())
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
		older, _ := r.Contract(v1beta1)
		newer, key := r.Contract(v1beta2)
		for _, name := range newer {
			if slices.Contains(older, name) {
				p.Broken(
					"IM-37",
					"",
					r.Object,
					labelPath(key),
					"version %s of %s stands under both contracts",
					name,
					r.kind(),
				)
			}
		}
		for _, contract := range contracts {
			versions, key := r.Contract(contract)
			if !slices.IsSortedFunc(versions, version.CompareKubeAwareVersionStrings) {
				p.Broken("IC-10", contract, r.Object, labelPath(key), "the label of %s does not ascend: %s", r.kind(),
					strings.Join(versions, ", "))
			}
		}
	}
}
