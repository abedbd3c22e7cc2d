package checks

import (
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

// coreGroups are the groups that core has all rights on anyway.
var coreGroups = []string{
	"infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io",
}

const aggregationLabel = "cluster.x-k8s.io/aggregate-to-manager"

var (
	fullRights     = []string{"create", "delete", "get", "list", "patch", "update", "watch"}
	templateRights = []string{"get", "list", "patch", "update", "watch"}
	readRights     = []string{"get", "list", "watch"}
	// changeRights are two verbs, one of which suffices.
	changeRights = []string{"patch", "update"}
)

// coreRules are the rules about core's rights on each role.
var coreRules = ruleOf{
	machine: "RB-05", cluster: "RB-06", clusterTemplate: "RB-07", machineTemplate: "RB-09", controlPlane: "CP-03",
	controlPlaneTemplate: "CP-03", config: "BP-03", configTemplate: "BP-03", pool: "MP-03", poolTemplate: "MP-03",
}

var rightChecks = []*check.Check{
	{
		ID: "core-rights", Level: check.Must, Contracts: contracts, Page: machinePage + "#all-resources-api-group",
		Doc: "A provider with its own API group grants core the rights that core needs on the provider's resources.",
		Why: "Without these rights, core cannot read or write the objects, so it cannot set owners, and clusters " +
			"hang.",
		Fix: "Add a ClusterRole with label cluster.x-k8s.io/aggregate-to-manager: \"true\" and the verbs that the " +
			"message names.",
		Rules: coreRules.ids(), Needs: []check.Need{check.Definitions, check.Deployments}, Run: coreRules.each(coreRights),
	},
	{
		ID: "core-rights-label", Fixes: true, Level: check.Should, Contracts: contracts,
		Page: machinePage + "#all-resources-api-group",
		Doc:  "The aggregation label of a ClusterRole for core has the value true.",
		Why: "Core aggregates roles by the key and the value of this label, so a role with another value grants " +
			"nothing.",
		Fix:   "Write the value as the string \"true\".",
		Rules: []string{"RB-08"}, Needs: []check.Need{check.Components}, Run: coreRightsLabel,
	},
	{
		ID: "manager-rights", Level: check.Must, Contracts: contracts, Page: machinePage,
		Doc:   "The account of the controllers may read and change machines and clusters of the provider, and their status.",
		Why:   "Without these rights, the API server refuses the controllers' requests, and nothing is ever reconciled.",
		Fix:   "Add the rights as markers +kubebuilder:rbac, and bind the role to the account of the Deployment.",
		Rules: []string{"RB-01", "RB-02"}, Needs: []check.Need{check.Definitions, check.Deployments},
		Run: ruleOf{machine: "RB-01", cluster: "RB-01"}.each(managerRights),
	},
}

// grant is one rule of an RBAC role.
type grant struct{ groups, resources, verbs, names []string }

// grants returns the rules of an RBAC role.
func grants(o *source.Object) []grant {
	var all []grant
	for _, rule := range o.List("rules") {
		fields, _ := rule.(map[string]any)
		all = append(all, grant{
			texts(fields["apiGroups"]), texts(fields["resources"]), texts(fields["verbs"]), texts(fields["resourceNames"]),
		})
	}
	return all
}

func texts(value any) []string {
	list, _ := value.([]any)
	var all []string
	for _, element := range list {
		if s, ok := element.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// missing returns the verbs on a resource that no grant includes.
func missing(all []grant, group, resource string, verbs []string) []string {
	in := func(list []string, s string) bool { return slices.Contains(list, s) || slices.Contains(list, "*") }
	var without []string
	for _, verb := range verbs {
		if !slices.ContainsFunc(all, func(g grant) bool {
			return len(g.names) == 0 && in(g.groups, group) && in(g.resources, resource) && in(g.verbs, verb)
		}) {
			without = append(without, verb)
		}
	}
	return without
}

// objects returns the objects of a kind in a file.
func objects(f *source.File, kind string) []*source.Object {
	var all []*source.Object
	for _, o := range f.Objects {
		if o.Kind() == kind {
			all = append(all, o)
		}
	}
	return all
}

func coreRights(s subject) {
	var granted []grant
	for _, o := range objects(s.File, "ClusterRole") {
		if o.Label(aggregationLabel) == "true" {
			granted = append(granted, grants(o)...)
		}
	}
	want := fullRights
	if s.role == clusterTemplate || s.role == controlPlaneTemplate {
		want = templateRights
	}
	group, plural := s.CRD.Spec.Group, s.CRD.Spec.Names.Plural
	if without := missing(granted, group, plural, want); len(without) > 0 && !slices.Contains(coreGroups, group) {
		s.broken([]string{"spec", "group"}, "core is not granted %s on %s.%s", strings.Join(without, ", "), plural, group)
	}
}

func coreRightsLabel(p *check.Pass) {
	for _, f := range p.Release.Of(source.Components) {
		for _, o := range objects(f, "ClusterRole") {
			if value := o.Get("metadata", "labels", aggregationLabel); value != nil && value != "true" {
				p.Broken("RB-08", "", o, labelPath(aggregationLabel), "the value is %v, not the string true", value)
				p.Replace(o, labelPath(aggregationLabel), `"true"`)
			}
		}
	}
}

func managerRights(s subject) {
	if len(objects(s.File, "Deployment")) == 0 {
		return
	}
	granted, group, plural := accountGrants(s.File), s.CRD.Spec.Group, s.CRD.Spec.Names.Plural
	path := []string{"spec", "names", "plural"}
	without := missing(granted, group, plural, readRights)
	if lacks := missing(granted, group, plural, changeRights); len(lacks) == len(changeRights) {
		without = append(without, "patch")
	}
	if len(without) > 0 {
		s.broken(path, "no account of a Deployment may %s %s.%s", strings.Join(without, ", "), plural, group)
	}
	if lacks := missing(granted, group, plural+"/status", changeRights); len(lacks) == len(changeRights) {
		s.of("RB-02").broken(path, "no account of a Deployment may change %s/status.%s", plural, group)
	}
}

// accountGrants returns the rights of the service accounts of the Deployments in a file.
func accountGrants(f *source.File) []grant {
	var all []grant
	for _, role := range boundRoles(f) {
		all = append(all, roleGrants(f, role)...)
	}
	return all
}

// boundRoles returns the roles in a file that are bound to service accounts of its Deployments.
func boundRoles(f *source.File) []*source.Object {
	accounts := map[string]bool{}
	for _, o := range objects(f, "Deployment") {
		accounts[accountOf(o)] = true
	}
	var all []*source.Object
	for _, kind := range []string{"ClusterRoleBinding", "RoleBinding"} {
		for _, binding := range objects(f, kind) {
			if !bindsAccount(binding, accounts) {
				continue
			}
			for _, role := range objects(f, binding.Text("roleRef", "kind")) {
				if role.Name() == binding.Text("roleRef", "name") {
					all = append(all, role)
				}
			}
		}
	}
	return all
}

// roleGrants returns what a role grants, including the roles in the same file that it aggregates.
func roleGrants(f *source.File, role *source.Object) []grant {
	all := grants(role)
	for _, selector := range role.List("aggregationRule", "clusterRoleSelectors") {
		fields, _ := selector.(map[string]any)
		labels, _ := fields["matchLabels"].(map[string]any)
		for _, other := range objects(f, "ClusterRole") {
			matches := len(labels) > 0
			for key, value := range labels {
				matches = matches && other.Get("metadata", "labels", key) == value
			}
			if matches {
				all = append(all, grants(other)...)
			}
		}
	}
	return all
}

// accountOf returns the name of the ServiceAccount of a Deployment.
func accountOf(deployment *source.Object) string {
	for _, field := range []string{"serviceAccountName", "serviceAccount"} {
		if name := deployment.Text("spec", "template", "spec", field); name != "" {
			return name
		}
	}
	return "default"
}

func bindsAccount(binding *source.Object, accounts map[string]bool) bool {
	return slices.ContainsFunc(binding.List("subjects"), func(subject any) bool {
		fields, _ := subject.(map[string]any)
		name, _ := fields["name"].(string)
		return fields["kind"] == "ServiceAccount" && accounts[name]
	})
}
