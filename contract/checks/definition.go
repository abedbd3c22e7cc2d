package checks

import (
	"context"
	"strings"

	"github.com/gobuffalo/flect"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

// The rules about the definitions of each role.
var (
	acceptedRules = ruleOf{machine: "IM-02", machineTemplate: "IMT-05", cluster: "IC-03", clusterTemplate: "ICT-03"}
	nameRules     = ruleOf{
		machine: "IM-04", machineTemplate: "IMT-03", cluster: "IC-12", clusterTemplate: "ICT-08",
		controlPlane: "CP-09", controlPlaneTemplate: "CP-09", config: "BP-09", configTemplate: "BP-09", pool: "MP-09",
		poolTemplate: "MP-09",
	}
	scopeRules = ruleOf{
		machine: "IM-05", machineTemplate: "IMT-04", cluster: "IC-02", clusterTemplate: "ICT-03",
		controlPlane: "CP-01", controlPlaneTemplate: "CP-01", config: "BP-01", configTemplate: "BP-01", pool: "MP-01",
		poolTemplate: "MP-01",
	}
	metadataRules = ruleOf{
		machine: "IM-06", machineTemplate: "IMT-05", cluster: "IC-03", clusterTemplate: "ICT-03",
		controlPlane: "CP-02", controlPlaneTemplate: "CP-02", config: "BP-02", configTemplate: "BP-02", pool: "MP-02",
		poolTemplate: "MP-02",
	}
	partRules = ruleOf{
		machine: "IM-07", machineTemplate: "IMT-05", clusterTemplate: "ICT-03", controlPlaneTemplate: "CP-34",
		configTemplate: "BP-22", poolTemplate: "MP-24",
	}
	listRules = ruleOf{
		machine: "IM-33", machineTemplate: "IMT-10", cluster: "IC-15", clusterTemplate: "ICT-07",
		controlPlane: "CP-11", controlPlaneTemplate: "CP-35", config: "BP-10", configTemplate: "BP-23", pool: "MP-10",
		poolTemplate: "MP-25",
	}
	statusRules = ruleOf{machine: "IM-09", cluster: "IC-14"}
)

var definitionChecks = []*check.Check{
	{
		ID: "definition-accepted", Level: check.Must, Contracts: contracts, Page: machinePage,
		Doc:   "Each CustomResourceDefinition is one that an API server accepts.",
		Why:   "If the API server refuses a definition, the installation of the provider stops halfway.",
		Fix:   "Change the field that the message names; controller-gen generates definitions that are accepted.",
		Rules: append(acceptedRules.ids(), "IM-03", "CT-03"), Needs: []check.Need{check.Definitions},
		Run: definitionAccepted,
	},
	{
		ID: "definition-name", Level: check.Must, Contracts: contracts, Page: machinePage,
		Doc: "A definition is named by the plural of its kind in lower case, a dot and its group.",
		Why: "Core computes a definition's name from the kind in a reference, and does not find a definition that " +
			"has another name.",
		Fix:   "Set the plural of the resource to what the message says.",
		Rules: nameRules.ids(), Needs: []check.Need{check.Definitions},
		Run: nameRules.each(definitionName),
	},
	{
		ID: "definition-scope", Fixes: true, Level: check.Must, Contracts: contracts, Page: machinePage,
		Doc: "Objects that core interacts with are namespaced: infrastructure machines and clusters, control planes, " +
			"bootstrap configurations, machine pools, and the templates of all these.",
		Why:   "Core creates and looks up these objects in the namespace of their Cluster.",
		Fix:   "Set spec.scope to Namespaced.",
		Rules: scopeRules.ids(), Needs: []check.Need{check.Definitions},
		Run: scopeRules.each(definitionScope),
	},
	{
		ID: "definition-metadata", Level: check.Must, Contracts: contracts, Page: machinePage,
		Doc: "The schema leaves metadata to Kubernetes, and has apiVersion and kind as strings.",
		Why: "Core sets labels, annotations, owner references and finalizers, which a more specific schema of metadata " +
			"would drop.",
		Fix:   "Leave the schema of metadata at type object; embed metav1.TypeMeta and metav1.ObjectMeta.",
		Rules: metadataRules.ids(), Needs: []check.Need{check.Definitions},
		Run: metadataRules.eachSchema(definitionMetadata),
	},
	{
		ID: "definition-parts", Level: check.Must, Contracts: contracts, Page: machinePage,
		Doc:   "An InfraMachine has a spec and a status, and a template has a spec.",
		Why:   "Core reads and writes fields below spec and status, and fails if spec or status is missing.",
		Fix:   "Add the field as an object to the Go type, and generate the definition again.",
		Rules: append(partRules.ids(), "IM-08"), Needs: []check.Need{check.Definitions},
		Run: partRules.eachSchema(definitionParts),
	},
	{
		ID: "definition-list", Fixes: true, Level: check.Must, Contracts: contracts, Page: machinePage,
		Doc:   "The list kind of a resource is the resource's kind followed by List.",
		Why:   "Clients, core among them, derive the kind of the list from the kind of the resource.",
		Fix:   "Set spec.names.listKind to the kind followed by List.",
		Rules: listRules.ids(), Needs: []check.Need{check.Definitions},
		Run: listRules.each(definitionList),
	},
	{
		ID: "definition-status", Level: check.Should, Contracts: contracts, Page: machinePage,
		Doc: "The status of InfraMachines and InfraClusters is a subresource in each version that is served.",
		Why: "Without the subresource, each write of the spec can overwrite the status, and rights on the status mean " +
			"nothing.",
		Fix:   "Add the marker +kubebuilder:subresource:status to the type, and generate the definition again.",
		Rules: statusRules.ids(), Needs: []check.Need{check.Definitions},
		Run: statusRules.each(definitionStatus),
	},
}

func definitionAccepted(p *check.Pass) {
	ruled := map[string]string{}
	for _, r := range resources(p) {
		ruled[r.Name()] = acceptedRules[r.role]
	}
	for _, d := range p.Definitions() {
		rule := ruled[d.Name()]
		if rule == "" {
			rule = "CT-03"
		}
		refuse(p, d, rule)
	}
}

// refuse reports what an API server would refuse in a definition.
func refuse(p *check.Pass, d *source.Definition, rule string) {
	if version := d.Text("apiVersion"); version != "apiextensions.k8s.io/v1" {
		p.Broken("IM-03", "", d.Object, []string{"apiVersion"},
			"API servers serve definitions as apiextensions.k8s.io/v1 only, not as %q", version)
		return
	}
	if d.Problem != nil {
		p.Broken(rule, "", d.Object, nil, "the object is not a definition: %v", d.Problem)
		return
	}
	defaulted, internal := d.CRD.DeepCopy(), &apiextensions.CustomResourceDefinition{}
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(defaulted)
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(
		defaulted, internal, nil); err != nil {
		p.Broken(rule, "", d.Object, []string{"spec"}, "the definition cannot be converted: %v", err)
		return
	}
	// The API server sets the stored versions when it accepts the definition.
	internal.Status.StoredVersions = storedVersions(internal)
	for _, err := range validation.ValidateCustomResourceDefinition(context.Background(), internal) {
		p.Broken(rule, "", d.Object, fieldPath(err.Field), "an API server refuses the definition: %s: %s %s",
			err.Field, strings.ToLower(err.Type.String()), err.Detail)
	}
}

func storedVersions(crd *apiextensions.CustomResourceDefinition) []string {
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			return []string{v.Name}
		}
	}
	return nil
}

// fieldPath returns the steps of a path such as spec.versions[0].name.
func fieldPath(field string) []string {
	return strings.FieldsFunc(field, func(c rune) bool { return c == '.' || c == '[' || c == ']' })
}

func definitionName(s subject) {
	want := flect.Pluralize(strings.ToLower(s.kind())) + "." + s.CRD.Spec.Group
	if s.Name() != want {
		s.broken([]string{"metadata", "name"}, "the definition of %s is named %s, and core looks for %s", s.kind(),
			s.Name(), want)
	}
}

func definitionScope(s subject) {
	if scope := s.CRD.Spec.Scope; scope != apiextensionsv1.NamespaceScoped {
		s.broken([]string{"spec", "scope"}, "%s has scope %q", s.kind(), scope)
		s.replace([]string{"spec", "scope"}, "Namespaced")
	}
}

func definitionMetadata(s subject) {
	if metadata, ok := s.schema.Property("metadata"); ok && !isStandardMetadata(metadata) {
		s.broken(metadata.Path, "the schema of %s has metadata of its own", s.kind())
	}
	for _, name := range []string{"apiVersion", "kind"} {
		if f, ok := s.schema.Property(name); ok && f.Type != "string" {
			s.broken(f.Path, "%s of %s has type %q", name, s.kind(), f.Type)
		}
	}
}

// isStandardMetadata reports whether a schema leaves metadata to the API server. Such a schema may restrict names only.
func isStandardMetadata(metadata source.Schema) bool {
	for name := range metadata.Properties {
		if name != "name" && name != "generateName" {
			return false
		}
	}
	return metadata.Type == "object"
}

func definitionParts(s subject) {
	s.field("object", "spec")
	if s.role == machine {
		s.of("IM-08").field("object", "status")
	}
}

func definitionList(s subject) {
	// If the field is missing, the API server sets it to this value.
	if got := s.CRD.Spec.Names.ListKind; got != "" && got != s.kind()+"List" {
		s.broken([]string{"spec", "names", "listKind"}, "the list of %s is named %s", s.kind(), got)
		s.replace([]string{"spec", "names", "listKind"}, s.kind()+"List")
	}
}

func definitionStatus(s subject) {
	for i, v := range s.CRD.Spec.Versions {
		if v.Served && (v.Subresources == nil || v.Subresources.Status == nil) {
			s.broken(versionPath(i, "subresources"), "status of %s %s is not a subresource", s.kind(), v.Name)
		}
	}
}
