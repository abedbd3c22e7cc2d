package checks

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

const metadataPage = clusterctlPage + "#metadata-yaml"

// contractRules are the rules about the contract version that metadata.yaml and labels name.
var contractRules = ruleOf{
	machine: "IM-38", cluster: "IC-60", machineTemplate: "CT-34", clusterTemplate: "CT-34", controlPlane: "CP-07",
	controlPlaneTemplate: "CP-07", config: "BP-07", configTemplate: "BP-07", pool: "MP-07", poolTemplate: "MP-07",
}

var metadataChecks = []*check.Check{
	{
		ID: "release-files", Level: check.Must, Contracts: contracts, Page: clusterctlPage + "#provider-repositories",
		Doc:   "A release has metadata.yaml and components, and both can be read.",
		Why:   "clusterctl cannot install a release without metadata.yaml and components.",
		Fix:   "With each release, publish the file that the message names.",
		Rules: []string{"CT-02", "CT-03"}, Needs: []check.Need{check.Directory}, Run: releaseFiles,
	},
	{
		ID: "release-label", Level: check.Must, Contracts: contracts,
		Page: clusterctlPage + "#creating-a-local-provider-repository",
		Doc: "In a local repository, a release is a directory that is named after its version, inside a directory " +
			"that is named after the provider label.",
		Why: "clusterctl finds a release by the names of the directories.",
		Fix: "Name the directories like infrastructure-foo/v1.2.3. The name of the provider (foo) is in lower case " +
			"and has at most 63 characters.",
		Rules: []string{"CT-26", "CT-73", "CT-09", "CT-10"}, Needs: []check.Need{check.Directory, check.Version},
		Run: releaseLabel,
	},
	{
		ID: "metadata-form", Fixes: true, Level: check.Must, Contracts: contracts, Page: metadataPage,
		Doc:   "metadata.yaml is one object Metadata of clusterctl.cluster.x-k8s.io/v1alpha3 that lists release series.",
		Why:   "If metadata.yaml has the wrong form, clusterctl refuses the whole release.",
		Fix:   "Write apiVersion, kind and releaseSeries with major, minor and contract as in Cluster API's book.",
		Rules: []string{"CT-29", "CT-30", "CT-31"}, Needs: []check.Need{check.Metadata}, Run: metadataForm,
	},
	{
		ID: "metadata-series", Level: check.Must, Contracts: contracts, Page: metadataPage,
		Doc: "metadata.yaml lists the series of the release that it is published with.",
		Why: "If the series is missing, clusterctl does not find the contract of the release, and stops the " +
			"installation.",
		Fix:   "Add the series with major and minor of this release.",
		Rules: []string{"CT-32"}, Needs: []check.Need{check.Complete, check.Metadata, check.Version},
		Run: metadataSeries,
	},
	{
		ID: "metadata-contract-known", Level: check.Must, Contracts: contracts, Page: metadataPage,
		Doc: "The contract that metadata.yaml names for the series of the release is one that Cluster API accepts.",
		Why: "If clusterctl's version of Cluster API does not have the contract of a release, clusterctl refuses the " +
			"release.",
		Fix:   "Write v1beta2, or v1beta1 if the release still implements that contract.",
		Rules: []string{"CT-33"}, Needs: []check.Need{check.Metadata}, Run: metadataContractKnown,
	},
	{
		ID: "metadata-contract-labels", Level: check.Must, Contracts: contracts, Page: metadataPage,
		Doc: "The contract that metadata.yaml names for the release is also named by the contract labels of the " +
			"release's definitions.",
		Why: "clusterctl plans upgrades with the contract in metadata.yaml, but core uses the contract labels. If " +
			"the two differ, upgrades break clusters.",
		Fix:   "Correct the contract of the series, or label the definitions with the contract that they implement.",
		Rules: contractRules.ids(), Needs: []check.Need{check.Complete, check.Metadata, check.Definitions},
		Run: contractRules.each(metadataContractLabels),
	},
}

func releaseFiles(p *check.Pass) {
	at := source.Position{File: p.Release.Path}
	for role, rule := range map[source.Role]string{source.Metadata: "CT-02", source.Components: "CT-03"} {
		files := p.Release.Of(role)
		if len(files) == 0 {
			p.BrokenAt(rule, at, "the release has no %s", map[source.Role]string{
				source.Metadata: "metadata.yaml", source.Components: "components",
			}[role])
		}
		for _, f := range files {
			if f.Problem != nil {
				p.BrokenAt(rule, f.Problem.At, "the file is not YAML: %s", f.Problem.Message)
			}
		}
	}
}

var (
	semver = regexp.MustCompile(
		`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`,
	)
	providerName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
)

func releaseLabel(p *check.Pass) {
	at := source.Position{File: p.Release.Path}
	if !semver.MatchString(p.Release.Version) {
		p.BrokenAt("CT-26", at, "the name of the directory %q is not a semantic version", p.Release.Version)
	}
	label, kind := p.Release.Label, p.Release.Type()
	if label == "" {
		// If the path has no provider label, the parent directory may have any name, unless the name is clearly meant as a
		// provider label.
		parent := filepath.Base(filepath.Dir(p.Release.Path))
		if kind != "" && strings.HasPrefix(parent, string(kind)) {
			p.BrokenAt("CT-73", at, "the directory %q is not a provider label of type %s", parent, kind)
		}
		return
	}
	name := strings.TrimPrefix(label, string(kind)+"-")
	if !providerName.MatchString(name) {
		p.BrokenAt("CT-09", at, "the name %q of the provider has other characters than a-z, 0-9 and dashes", name)
	}
	if len(name) > 63 {
		p.BrokenAt("CT-10", at, "the name %q of the provider has %d characters", name, len(name))
	}
}

// series is one entry of metadata.yaml.
type series struct {
	object       *source.Object
	path         []string
	major, minor int64
	contract     string
}

// allSeries returns the release series of a release. It calls the function wrong for each field that an entry lacks,
// unless wrong is nil.
func allSeries(r *source.Release, wrong func(o *source.Object, path []string, field string)) []series {
	var all []series
	for _, f := range r.Of(source.Metadata) {
		for _, o := range f.Objects {
			for i := range o.List("releaseSeries") {
				s := series{object: o, path: []string{"releaseSeries", strconv.Itoa(i)}}
				var major, minor, contract bool
				s.major, major = o.Get(append(s.path, "major")...).(int64)
				s.minor, minor = o.Get(append(s.path, "minor")...).(int64)
				s.contract, contract = o.Get(append(s.path, "contract")...).(string)
				for field, ok := range map[string]bool{"major": major, "minor": minor, "contract": contract && s.contract != ""} {
					if !ok && wrong != nil {
						wrong(o, s.path, field)
					}
				}
				// A missing number counts as 0, as in clusterctl.
				all = append(all, s)
			}
		}
	}
	return all
}

func metadataForm(p *check.Pass) {
	for _, f := range p.Release.Of(source.Metadata) {
		if len(f.Objects) != 1 {
			p.BrokenAt("CT-30", source.Position{File: f.Path}, "the file has %d objects, not one", len(f.Objects))
		}
		for _, o := range f.Objects {
			for field, want := range map[string]string{
				"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Metadata",
			} {
				if got := o.Text(field); got != want {
					p.Broken("CT-30", "", o, []string{field}, "%s is %q, not %s", field, got, want)
					p.Replace(o, []string{field}, want)
				}
			}
			if len(o.List("releaseSeries")) == 0 {
				p.Broken("CT-31", "", o, []string{"releaseSeries"}, "there is no release series")
			}
		}
	}
	allSeries(p.Release, func(o *source.Object, path []string, field string) {
		p.Broken("CT-29", "", o, path, "the series has no %s of the right type", field)
	})
}

// own returns the series of the release's version or, if the version is unknown, the newest series. It returns nil if
// there is none.
func own(p *check.Pass) *series {
	all := allSeries(p.Release, nil)
	if len(all) == 0 {
		return nil
	}
	if match := semver.FindStringSubmatch(p.Release.Version); match != nil {
		i := slices.IndexFunc(all, func(s series) bool {
			return strconv.FormatInt(s.major, 10) == match[1] && strconv.FormatInt(s.minor, 10) == match[2]
		})
		if i < 0 {
			return nil
		}
		return &all[i]
	}
	newest := slices.MaxFunc(all, func(a, b series) int {
		return slices.Compare([]int64{a.major, a.minor}, []int64{b.major, b.minor})
	})
	return &newest
}

func metadataSeries(p *check.Pass) {
	if all := allSeries(p.Release, nil); semver.MatchString(p.Release.Version) && len(all) > 0 && own(p) == nil {
		p.Broken("CT-32", "", all[0].object, []string{"releaseSeries"}, "no series matches %s", p.Release.Version)
	}
}

func metadataContractKnown(p *check.Pass) {
	s := own(p)
	if s != nil && s.contract != "" && !slices.Contains(contracts, s.contract) {
		p.Broken("CT-33", "", s.object, append(s.path, "contract"),
			"contract %q of series %d.%d is not one that Cluster API accepts",
			s.contract, s.major, s.minor)
	}
}

func metadataContractLabels(s subject) {
	mine := own(s.pass)
	if mine == nil || !slices.Contains(contracts, mine.contract) || s.Newest(v1beta1) == "" && s.Newest(v1beta2) == "" {
		return // other checks report this
	}
	if s.contract = mine.contract; s.Newest(s.contract) == "" {
		s.broken([]string{"metadata", "labels"}, "the release is for contract %s, but the definition of %s has no "+
			"label of that contract", s.contract, s.kind())
	}
}
