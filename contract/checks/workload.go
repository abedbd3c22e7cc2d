package checks

import (
	"slices"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

var workloadChecks = []*check.Check{
	{
		ID: "template-references", Level: check.Must, Contracts: contracts,
		Page: clusterctlPage + "#workload-cluster-templates",
		Doc:  "Each object that a cluster template or a ClusterClass refers to is in the same file.",
		Why: "If the file lacks the object, the cluster hangs, because its machines or its control plane are made from " +
			"that object.",
		Fix:   "Add the object that the message names, or correct the kind or the name.",
		Rules: []string{"CT-62", "CT-76"}, Needs: []check.Need{check.Components}, Run: templateReferences,
	},
	{
		ID: "template-namespace", Level: check.Must, Contracts: contracts,
		Page: clusterctlPage + "#workload-cluster-templates",
		Doc:  "Cluster templates and ClusterClasses have no Namespace object, and all objects are in one namespace.",
		Why: "clusterctl puts all objects of the file into the namespace that the user names. This namespace must " +
			"already exist.",
		Fix:   "Remove the Namespace object. In all other objects, leave the namespace out or set it to ${NAMESPACE}.",
		Rules: []string{"CT-68", "CT-69", "CT-81"}, Needs: []check.Need{check.Components}, Run: templateNamespace,
	},
	{
		ID: "class-name", Level: check.Must, Contracts: contracts, Page: clusterctlPage + "#clusterclass-definitions",
		Doc: "A file clusterclass-NAME.yaml has the ClusterClass NAME.",
		Why: "clusterctl computes the name of the file from the class that the cluster names. It does not find a " +
			"file with another name.",
		Fix:   "Give file and ClusterClass the same name.",
		Rules: []string{"CT-79"}, Needs: []check.Need{check.Classes}, Run: className,
	},
}

// Fields of these names refer to another object.
var referenceFields = []string{
	"infrastructureRef", "controlPlaneRef", "configRef", "templateRef", "ref",
}

// workloadReferences returns the references below a value.
func workloadReferences(o *source.Object, value any, path []string) []reference {
	var all []reference
	switch v := value.(type) {
	case []any:
		for i, element := range v {
			all = append(all, workloadReferences(o, element, append(slices.Clone(path), strconv.Itoa(i)))...)
		}
	case map[string]any:
		for _, key := range sortedKeys(v) {
			below := append(slices.Clone(path), key)
			fields, isObject := v[key].(map[string]any)
			kind, _ := fields["kind"].(string)
			name, _ := fields["name"].(string)
			if isObject && slices.Contains(referenceFields, key) && kind != "" && name != "" {
				all = append(all, reference{o, below, kind, name})
				continue
			}
			all = append(all, workloadReferences(o, v[key], below)...)
		}
	}
	return all
}

func templateReferences(p *check.Pass) {
	rules := map[source.Role]string{source.Template: "CT-62", source.Class: "CT-76"}
	for role, rule := range rules {
		for _, f := range p.Release.Of(role) {
			if f.Problem != nil {
				continue // the references of other objects are unknown
			}
			for _, o := range f.Objects {
				if o.Group() != "cluster.x-k8s.io" && !strings.HasSuffix(o.Group(), ".cluster.x-k8s.io") {
					continue
				}
				for _, r := range workloadReferences(o, o.Get("spec"), []string{"spec"}) {
					if !slices.ContainsFunc(
						objects(f, r.kind),
						func(o *source.Object) bool { return o.Name() == r.name },
					) {
						p.Broken(rule, "", o, r.path, "%s %q is not in the file", r.kind, r.name)
					}
				}
			}
		}
	}
}

func templateNamespace(p *check.Pass) {
	for role, rule := range map[source.Role]string{source.Template: "CT-68", source.Class: "CT-81"} {
		for _, f := range p.Release.Of(role) {
			first := ""
			for _, o := range f.Objects {
				if o.Kind() == "Namespace" && o.Group() == "" {
					p.Broken(rule, "", o, []string{"kind"}, "the file has the Namespace %s", o.Name())
				}
				namespace := o.Namespace()
				if first == "" {
					first = namespace
				}
				if namespace != "" && namespace != first {
					p.Broken(
						"CT-69",
						"",
						o,
						[]string{"metadata", "namespace"},
						"the object is in namespace %s, others in %s",
						namespace,
						first,
					)
				}
			}
		}
	}
}

func className(p *check.Pass) {
	for _, f := range p.Release.Of(source.Class) {
		want := strings.TrimSuffix(strings.TrimPrefix(f.Base(), "clusterclass-"), ".yaml")
		classes := objects(f, "ClusterClass")
		// A class named by a variable fits if the user sets it accordingly.
		if !slices.ContainsFunc(classes, func(o *source.Object) bool {
			return o.Name() == want || strings.Contains(o.Name(), "${")
		}) {
			p.BrokenAt("CT-79", source.Position{File: f.Path}, "the file has no ClusterClass %q", want)
		}
	}
}
