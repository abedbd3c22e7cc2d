package checks

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

var offerChecks = []*check.Check{
	{
		ID: "infrastructure-resources", Level: check.Should, Contracts: contracts, Page: machinePage,
		Doc: "An infrastructure provider has a definition of machines and a definition of clusters.",
		Why: "Without a definition of machines, no Machine gets its infrastructure. Without a definition of clusters, no " +
			"Cluster gets its infrastructure.",
		Fix:   "Add the missing definition. Its kind must end in Machine or Cluster.",
		Rules: []string{"IM-01", "IC-01"}, Needs: []check.Need{check.Complete, check.Definitions},
		Run: infrastructureResources,
	},
	{
		ID: "machine-failure-domain", Level: check.Should, Contracts: []string{v1beta2},
		Page: machinePage + "#inframachine-failure-domain",
		Doc:  "Under contract v1beta2, the spec of an InfraMachine has no field for a failure domain.",
		Why: "Core reads status.failureDomain of the InfraMachine, and Machine.spec.failureDomain says where the " +
			"machine should be. A third field could contradict these two.",
		Fix:   "Read Machine.spec.failureDomain, report status.failureDomain, and drop spec.failureDomain in a new version.",
		Rules: []string{"IM-15"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{machine: "IM-15"}.eachSchema(machineFailureDomain),
	},
	{
		ID: "definition-category", Level: check.Should, Contracts: contracts, Page: machinePage,
		Doc: "The definition of the InfraMachine is in the category cluster-api.",
		Why: "kubectl get cluster-api shows all objects that belong to clusters. Without the category, it does not show " +
			"InfraMachines.",
		Fix:   "Add categories=cluster-api to the marker +kubebuilder:resource.",
		Rules: []string{"IM-70"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{machine: "IM-70"}.each(definitionCategory),
	},
	{
		ID: "template-variables", Level: check.Should, Contracts: contracts,
		Page: clusterctlPage + "#workload-cluster-templates",
		Doc: "Cluster templates are named after their flavor, and take the cluster's name and Kubernetes version from " +
			"variables of clusterctl.",
		Why: "If the file has another name, clusterctl generate cluster does not find the flavor. Without the " +
			"variables, it makes the same cluster for every name and version.",
		Fix:   "Name the file cluster-template-FLAVOR.yaml, and use ${CLUSTER_NAME} and ${KUBERNETES_VERSION}.",
		Rules: []string{"CT-66", "CT-72"}, Needs: []check.Need{check.Complete}, Run: templateVariables,
	},
	{
		ID: "components-closed", Level: check.Should, Contracts: contracts, Page: componentsPage,
		Doc: "Each Secret or ConfigMap that pods of the components need is itself among the components, or is " +
			"created by a Certificate among them.",
		Why: "clusterctl installs only the components file. If an object is missing from this file, the pod waits " +
			"for an object that nobody creates.",
		Fix:   "Add the object, or mark the reference to it as optional.",
		Rules: []string{"CT-92"}, Needs: []check.Need{check.Deployments}, Run: componentsClosed,
	},
}

func infrastructureResources(p *check.Pass) {
	if p.Release.Type() != source.Infrastructure {
		return
	}
	at := source.Position{File: p.Release.Of(source.Components)[0].Path}
	has := func(roles ...role) bool { return len(resources(p, roles...)) > 0 }
	if !has(machine) && !has(pool) {
		p.BrokenAt("IM-01", at, "there is no definition of a machine")
	}
	if has(machine) && !has(cluster) { // a provider that has only pools is used together with another provider
		p.BrokenAt("IC-01", at, "there is no definition of a cluster")
	}
}

func machineFailureDomain(s subject) {
	if field, ok := s.schema.Property("spec", "failureDomain"); ok && s.contract == v1beta2 {
		s.broken(field.Path, "%s has spec.failureDomain", s.kind())
	}
}

func definitionCategory(s subject) {
	if !slices.Contains(s.CRD.Spec.Names.Categories, "cluster-api") {
		s.broken([]string{"spec", "names"}, "%s is not in the category cluster-api", s.kind())
	}
}

var flavorName = regexp.MustCompile(`^cluster-template(-[^/]+)?\.yaml$`)

func templateVariables(p *check.Pass) {
	for _, f := range slices.Concat(p.Release.Of(source.Template), p.Release.Of(source.Other)) {
		clusters := objects(f, "Cluster")
		if len(clusters) == 0 || !isCore(clusters[0].Group()) {
			continue
		}
		if !flavorName.MatchString(f.Base()) {
			p.Broken("CT-66", "", clusters[0], []string{"metadata", "name"},
				"the file has a Cluster, but is not named cluster-template-FLAVOR.yaml")
		}
		if f.Role != source.Template {
			continue
		}
		names := []string{"CLUSTER_NAME"}
		if slices.ContainsFunc(f.Objects, hasKubernetesVersion) {
			names = append(names, "KUBERNETES_VERSION")
		}
		for _, name := range names {
			if !slices.ContainsFunc(f.Variables, func(v source.Variable) bool { return v.Name == name }) {
				p.Broken("CT-72", "", clusters[0], []string{"metadata", "name"}, "the template does not use ${%s}", name)
			}
		}
	}
}

// hasKubernetesVersion reports whether a core object sets the Kubernetes version.
func hasKubernetesVersion(o *source.Object) bool {
	return o.Group() == "cluster.x-k8s.io" &&
		(o.Get("spec", "topology", "version") != nil || o.Get("spec", "template", "spec", "version") != nil)
}

// componentsClosed checks that the components contain everything that their pods need to start.
func componentsClosed(p *check.Pass) {
	for _, f := range p.Release.Of(source.Components) {
		for _, o := range objects(f, "Deployment") {
			for _, r := range podNeeds(o) {
				if r.name != "" && !strings.Contains(r.name, "${") && !isMade(f, r) {
					p.Broken("CT-92", "", o, r.path, "%s %q is neither among the components nor created from them", r.kind, r.name)
				}
			}
		}
	}
}

// isMade reports whether a file has the object, or a Certificate that creates it as its Secret.
func isMade(f *source.File, r reference) bool {
	return slices.ContainsFunc(f.Objects, func(o *source.Object) bool {
		return o.Kind() == r.kind && o.Name() == r.name ||
			o.Kind() == "Certificate" && r.kind == "Secret" && o.Text("spec", "secretName") == r.name
	})
}

// podNeeds returns the Secrets and ConfigMaps that an object's pods need to start.
func podNeeds(o *source.Object) []reference {
	var all []reference
	add := func(kind, name string, path ...string) {
		if o.Get(append(slices.Clone(path), "optional")...) != true {
			at := append(slices.Clone(path), name)
			all = append(all, reference{o, at, kind, o.Text(at...)})
		}
	}
	for i := range o.List(podPath(o, "volumes")...) {
		at := podPath(o, "volumes", strconv.Itoa(i))
		add("Secret", "secretName", append(slices.Clone(at), "secret")...)
		add("ConfigMap", "name", append(slices.Clone(at), "configMap")...)
	}
	for _, c := range containers(o) {
		for i := range o.List(c.at("env")...) {
			add("Secret", "name", c.at("env", strconv.Itoa(i), "valueFrom", "secretKeyRef")...)
			add("ConfigMap", "name", c.at("env", strconv.Itoa(i), "valueFrom", "configMapKeyRef")...)
		}
		for i := range o.List(c.at("envFrom")...) {
			add("Secret", "name", c.at("envFrom", strconv.Itoa(i), "secretRef")...)
			add("ConfigMap", "name", c.at("envFrom", strconv.Itoa(i), "configMapRef")...)
		}
	}
	return all
}
