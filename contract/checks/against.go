package checks

import (
	"slices"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

// versionsPage is where Kubernetes documents what a new version of a definition may change.
const versionsPage = "https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/" +
	"custom-resource-definition-versioning/"

// deprecationPage is where Kubernetes documents what clients may rely on.
const deprecationPage = "https://kubernetes.io/docs/reference/using-api/deprecation-policy/"

var againstChecks = []*check.Check{
	{
		ID: "against-definitions", Level: check.Must, Contracts: contracts, Page: versionsPage,
		Doc: "Each definition of the older release still exists with the same scope, and still has the API version " +
			"in which the older release stores objects.",
		Why: "The API server refuses a definition that lacks a version in which objects are stored, so upgrades stop.",
		Fix: "Keep the definition and the version until a release has migrated all objects. You may set " +
			"`served: false` for that version.",
		Rules: []string{"RV-01", "RV-07"}, Needs: []check.Need{check.Before, check.Definitions}, Run: againstDefinitions,
	},
	{
		ID: "against-served", Level: check.Should, Contracts: contracts, Page: deprecationPage,
		Doc: "Versions that the older release serves are still served.",
		Why: "Clients, GitOps repositories and ClusterClasses that name a version stop working when the version is " +
			"no longer served.",
		Fix:   "Serve the version for as long as the deprecation policy says, and announce its removal.",
		Rules: []string{"RV-02"}, Needs: []check.Need{check.Before, check.Definitions}, Run: againstServed,
	},
	{
		ID: "against-schema", Level: check.Must, Contracts: contracts, Page: deprecationPage,
		Doc: "The schema of a version accepts everything that the older release accepted.",
		Why: "If the schema becomes stricter, stored objects lose fields or can no longer be written, and the API server " +
			"refuses requests that it accepted before.",
		Fix:   "Make the change in a new version with conversion, or keep the field, its type and its values.",
		Rules: []string{"RV-03"}, Needs: []check.Need{check.Before, check.Definitions}, Run: againstSchema,
	},
	{
		ID: "against-immutable", Level: check.Must, Contracts: contracts, Page: deprecationPage,
		Doc: "Each field that could be changed in the older release can still be changed.",
		Why: "If a field becomes immutable, changes that users and controllers could make before are refused after " +
			"the upgrade.",
		Fix:   "Remove the new validation rule that uses oldSelf. If you need the rule, introduce it in a new API version.",
		Rules: []string{"RV-04"}, Needs: []check.Need{check.Before, check.Definitions}, Run: againstImmutable,
	},
	{
		ID: "against-metadata", Level: check.Must, Contracts: contracts, Page: metadataPage,
		Doc: "metadata.yaml keeps the release series that it had in the older release, and the contracts of these " +
			"series.",
		Why: "If a series is missing or has another contract, clusterctl no longer knows the contract of an " +
			"installed release, and cannot plan the upgrade of that release.",
		Fix:   "Add the series again, with the contract that it was published with.",
		Rules: []string{"RV-05", "RV-06"}, Needs: []check.Need{check.Before, check.Metadata}, Run: againstMetadata,
	},
	{
		ID: "against-contract", Level: check.Must, Contracts: contracts, Page: machinePage + "#all-resources-version",
		Doc: "An API version implements the contract that it implemented in the older release.",
		Why: "If an API version changes its contract, core applies the new contract to objects that were written for the " +
			"old one, and does not find the status fields of the new contract in them.",
		Fix:   "Make a new API version for the new contract, with conversion.",
		Rules: []string{"RV-08"}, Needs: []check.Need{check.Before, check.Definitions}, Run: againstContract,
	},
}

// pair is a definition in the older and in the newer release.
type pair struct{ before, now *source.Definition }

// pairs returns the definitions that both releases have, and those that only the older release has.
func pairs(p *check.Pass) (both []pair, gone []*source.Definition) {
	now := p.Definitions()
	for _, before := range p.Before.Definitions() {
		i := slices.IndexFunc(now, func(d *source.Definition) bool { return d.Name() == before.Name() })
		switch {
		case before.Problem != nil:
		case i < 0:
			gone = append(gone, before)
		case now[i].Problem == nil:
			both = append(both, pair{before, now[i]})
		}
	}
	return both, gone
}

func againstDefinitions(p *check.Pass) {
	both, gone := pairs(p)
	for _, d := range gone {
		p.BrokenAt("RV-07", source.Position{File: p.Release.Of(source.Components)[0].Path},
			"the definition %s of the older release is gone, and with it all its objects", d.Name())
	}
	for _, d := range both {
		if before, now := d.before.CRD.Spec.Scope, d.now.CRD.Spec.Scope; before != now {
			p.Broken("RV-07", "", d.now.Object, []string{"spec", "scope"}, "the scope was %s and is now %s", before, now)
		}
		for _, v := range d.before.CRD.Spec.Versions {
			if v.Storage && d.version(v.Name) < 0 {
				p.Broken("RV-01", "", d.now.Object, []string{"spec", "versions"},
					"the older release stores %s in version %s, which is gone", d.now.CRD.Spec.Names.Kind, v.Name)
			}
		}
	}
}

// version returns the index of a version in the newer definition, or a negative number if that definition lacks the
// version.
func (d pair) version(name string) int {
	for i, v := range d.now.CRD.Spec.Versions {
		if v.Name == name {
			return i
		}
	}
	return -1
}

func againstServed(p *check.Pass) {
	both, _ := pairs(p)
	for _, d := range both {
		for _, v := range d.before.CRD.Spec.Versions {
			i := d.version(v.Name)
			switch {
			case !v.Served:
			case i < 0:
				p.Broken("RV-02", "", d.now.Object, []string{"spec", "versions"},
					"the older release serves version %s of %s, which is gone", v.Name, d.now.CRD.Spec.Names.Kind)
			case !d.now.CRD.Spec.Versions[i].Served:
				p.Broken("RV-02", "", d.now.Object, versionPath(i, "served"),
					"the older release serves version %s of %s, this one does not", v.Name, d.now.CRD.Spec.Names.Kind)
			}
		}
	}
}

// eachVersion calls the function look with the two schemas of each version that both releases have.
func eachVersion(p *check.Pass, look func(d pair, before, now source.Schema)) {
	both, _ := pairs(p)
	for _, d := range both {
		for _, v := range d.before.CRD.Spec.Versions {
			before, had := d.before.Schema(v.Name)
			if now, has := d.now.Schema(v.Name); had && has {
				look(d, before, now)
			}
		}
	}
}

func againstMetadata(p *check.Pass) {
	now := allSeries(p.Release, nil)
	if len(now) == 0 {
		return // metadata-form reports this
	}
	for _, before := range allSeries(p.Before, nil) {
		i := slices.IndexFunc(now, func(s series) bool { return s.major == before.major && s.minor == before.minor })
		switch {
		case i < 0:
			p.Broken("RV-05", "", now[0].object, []string{"releaseSeries"},
				"series %d.%d of the older release is missing", before.major, before.minor)
		case now[i].contract != before.contract:
			p.Broken("RV-06", "", now[i].object, append(now[i].path, "contract"),
				"series %d.%d had contract %s and now has %s", before.major, before.minor, before.contract, now[i].contract)
		}
	}
}

func againstContract(p *check.Pass) {
	both, _ := pairs(p)
	for _, d := range both {
		for i, contract := range contracts {
			other := contracts[len(contracts)-1-i]
			before, _ := d.before.Contract(contract)
			still, _ := d.now.Contract(contract)
			now, key := d.now.Contract(other)
			for _, name := range before {
				if slices.Contains(now, name) && !slices.Contains(still, name) {
					p.Broken("RV-08", "", d.now.Object, labelPath(key), "version %s of %s implemented contract %s in the "+
						"older release, and %s here", name, d.now.CRD.Spec.Names.Kind, contract, other)
				}
			}
		}
	}
}

// fieldName converts the path of a schema to the path of the field as people write it.
func fieldName(path []string) string {
	var steps []string
	for i := 5; i < len(path); i++ {
		switch {
		case path[i] == "properties" && i+1 < len(path):
			i++
			steps = append(steps, path[i])
		case path[i] == "items":
			steps = append(steps, "[]")
		case path[i] == "additionalProperties":
			steps = append(steps, "*")
		}
	}
	return strings.ReplaceAll(strings.Join(steps, "."), ".[]", "[]")
}

// versionOf returns the name of the version that contains the schema at a path.
func versionOf(d *source.Definition, path []string) string {
	i, err := strconv.Atoi(path[2])
	if err != nil || i >= len(d.CRD.Spec.Versions) {
		return path[2]
	}
	return d.CRD.Spec.Versions[i].Name
}
