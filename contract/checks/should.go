package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

// fileRules are the rules about the name of the components file, by provider type.
var fileRules = map[source.Type]string{
	source.Core: "CT-37", source.Infrastructure: "CT-38", source.Bootstrap: "CT-39", source.ControlPlane: "CT-40",
	source.IPAM: "CT-41", source.Extension: "CT-42", source.Addon: "CT-43",
}

// hasConditionRules are the rules that require a resource to have conditions.
var hasConditionRules = ruleOf{
	machine: "IM-29", cluster: "IC-25", controlPlane: "CP-28", config: "BP-15", pool: "MP-17",
}

var shouldChecks = []*check.Check{
	{
		ID: "release-names", Level: check.Should, Contracts: contracts, Page: clusterctlPage + "#components-yaml",
		Doc: "Components, templates and ClusterClasses have the file names that Cluster API's book specifies.",
		Why: "Users have to configure each name that differs, in each tool that installs the provider.",
		Fix: "Name the files TYPE-components.yaml, cluster-template.yaml and clusterclass-NAME.yaml.",
		Rules: []string{
			"CT-37", "CT-38", "CT-39", "CT-40", "CT-41", "CT-42", "CT-43", "CT-65", "CT-78",
		}, Needs: []check.Need{check.Directory}, Run: releaseNames,
	},
	{
		ID: "release-templates", Level: check.Should, Contracts: contracts,
		Page: clusterctlPage + "#workload-cluster-templates",
		Doc:  "An infrastructure provider publishes cluster templates. The components of each provider contain a Namespace.",
		Why: "Without templates, clusterctl generate cluster has nothing to generate a cluster from. Without a Namespace, " +
			"users have to name one with --target-namespace.",
		Fix:   "Publish cluster-template.yaml, and one Namespace in the components.",
		Rules: []string{"CT-04", "CT-44"}, Needs: []check.Need{check.Directory, check.Deployments}, Run: releaseTemplates,
	},
	{
		ID: "class-files", Level: check.Should, Contracts: contracts, Page: clusterctlPage + "#clusterclass-definitions",
		Doc: "Files of ClusterClasses set no namespace, use no variables of clusterctl, and have no object in common.",
		Why: "A class that names a namespace cannot be used in another namespace. If two class files contain a template of " +
			"the same kind and name, one file overwrites the template of the other.",
		Fix: "Remove the namespaces. Use variables and patches of the class instead of variables of clusterctl. Give each " +
			"class its own templates.",
		Rules: []string{
			"CT-82", "CT-83", "CT-84", "CT-85",
		}, Needs: []check.Need{check.Classes}, Run: classFiles,
	},
	{
		ID: "has-conditions", Level: check.Should, Contracts: contracts, Page: machinePage + "#inframachine-conditions",
		Doc: "Objects that core interacts with have status.conditions.",
		Why: "Without conditions, users see that an object is not ready, but not why.",
		Fix: "Add the field Conditions of type []metav1.Condition to the status, with a condition Ready or " +
			"Available.",
		Rules: hasConditionRules.ids(), Needs: []check.Need{check.Definitions},
		Run: hasConditionRules.eachSchema(wants(
			want{v1beta1, "array", "status.conditions"}, want{v1beta2, "array", "status.conditions"},
		)),
	},
	{
		ID: "least-rights", Level: check.Should, Contracts: contracts, Page: machinePage,
		Doc: "No role of the controllers' account covers all groups, all verbs, or all resources of a group. There is one " +
			"exception: a role may cover all resources of a group that several providers share, such as " +
			"infrastructure.cluster.x-k8s.io.",
		Why: "If the account has rights on everything, whoever takes over the provider takes over the management " +
			"cluster.",
		Fix:   "Name groups, resources and verbs; see the markers +kubebuilder:rbac.",
		Rules: []string{"RB-12"}, Needs: []check.Need{check.Deployments}, Run: leastRights,
	},
}

func releaseNames(p *check.Pass) {
	at := source.Position{File: p.Release.Path}
	kind := p.Release.Type()
	want := string(kind) + "-components.yaml"
	files := p.Release.Of(source.Components)
	if rule := fileRules[kind]; rule != "" && len(files) > 0 &&
		!slices.ContainsFunc(files, func(f *source.File) bool { return f.Base() == want }) {
		p.BrokenAt(rule, source.Position{File: files[0].Path}, "no file of components is named %s", want)
	}
	templates := p.Release.Of(source.Template)
	if len(templates) > 0 &&
		!slices.ContainsFunc(templates, func(f *source.File) bool { return f.Base() == "cluster-template.yaml" }) {
		p.BrokenAt("CT-65", at, "none of the cluster templates is named cluster-template.yaml")
	}
	for _, f := range p.Release.Of(source.Other) {
		for _, o := range objects(f, "ClusterClass") {
			p.Broken("CT-78", "", o, []string{"metadata", "name"}, "the file is not named clusterclass-%s.yaml", o.Name())
		}
	}
}

func releaseTemplates(p *check.Pass) {
	if p.Release.Type() == source.Infrastructure && len(p.Release.Of(source.Template)) == 0 {
		p.BrokenAt("CT-04", source.Position{File: p.Release.Path}, "there is no cluster template")
	}
	for _, f := range p.Release.Of(source.Components) {
		if len(f.Objects) > 0 && len(objects(f, "Namespace")) == 0 {
			p.BrokenAt("CT-44", source.Position{File: f.Path}, "there is no Namespace for the components")
		}
	}
}

func classFiles(p *check.Pass) {
	seen := map[string]*source.File{}
	for _, f := range p.Release.Of(source.Class) {
		if len(f.Variables) > 0 {
			p.BrokenAt("CT-85", f.Variables[0].At, "the file uses variables of clusterctl; the first is %s", f.Variables[0].Text)
		}
		for _, o := range f.Objects {
			if o.Namespace() != "" && o.Namespace() != "${NAMESPACE}" { // clusterctl sets this one
				p.Broken("CT-83", "", o, []string{"metadata", "namespace"}, "the object is in namespace %s", o.Namespace())
			}
			key := fmt.Sprint(o.Group(), " ", o)
			if other := seen[key]; other != nil && other != f && !strings.Contains(o.Name(), "${") {
				p.Broken("CT-84", "", o, []string{"metadata", "name"}, "%s is in %s, too", o, other.Base())
			}
			seen[key] = f
		}
	}
	for _, c := range classes(p) {
		if c.File.Role != source.Class {
			continue
		}
		for _, s := range c.slots {
			if namespace := c.Text(append(slices.Clone(s.path), "namespace")...); namespace != "" {
				p.Broken("CT-82", "", c.Object, append(s.path, "namespace"), "the reference names namespace %s", namespace)
			}
		}
	}
}

// isOfProviders reports whether providers share all of these groups. Files do not show which kinds other providers
// define there.
func isOfProviders(groups []string) bool {
	shared := []string{
		"infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io",
	}
	return len(groups) > 0 && !slices.ContainsFunc(groups, func(g string) bool { return !slices.Contains(shared, g) })
}

func leastRights(p *check.Pass) {
	for _, f := range p.Release.Of(source.Components) {
		for _, role := range boundRoles(f) {
			for i, g := range grants(role) {
				for what, list := range map[string][]string{
					"apiGroups": g.groups, "resources": g.resources, "verbs": g.verbs,
				} {
					if slices.Contains(list, "*") && (what != "resources" || !isOfProviders(g.groups)) {
						p.Broken("RB-12", "", role, []string{"rules", fmt.Sprint(i), what}, "the rule covers all %s",
							strings.ToLower(what))
					}
				}
			}
		}
	}
}
