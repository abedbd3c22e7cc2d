package checks

import (
	"reflect"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

var schemaChecks = []*check.Check{
	{
		ID: "schema-conditions", Level: check.Should, Contracts: []string{v1beta2},
		Page:  "https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy",
		Doc:   "The conditions are a list of type map, whose key is the condition type.",
		Why:   "If the list is not of type map, a client that applies one condition removes all others.",
		Fix:   "Add the markers +listType=map and +listMapKey=type.",
		Rules: []string{"RV-15"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{
			machine: "RV-15", cluster: "RV-15", controlPlane: "RV-15", config: "RV-15", pool: "RV-15",
		}.eachSchema(schemaConditions),
	},
	{
		ID: "definition-conversion", Level: check.Should, Contracts: contracts, Page: versionsPage,
		Doc: "A definition that serves several versions with different schemas converts between them.",
		Why: "Without conversion, the API server changes only apiVersion. Fields that a version does not have are lost " +
			"when the object is written in that version.",
		Fix:   "Set spec.conversion.strategy to Webhook, with the Service of the webhooks.",
		Rules: []string{"RV-16"}, Needs: []check.Need{check.Definitions}, Run: definitionConversion,
	},
	{
		ID: "class-schema", Level: check.Should, Contracts: contracts,
		Page: machinePage + "#inframachinetemplate-support-for-ssa-dry-run",
		Doc:  "In a template's schema, spec.template.spec is optional or has a default.",
		Why: "A ClusterClass patch that removes the last field of spec.template.spec leaves null there. If the " +
			"schema requires an object, the API server refuses null, and the topology controller stops.",
		Fix:   "Add +kubebuilder:default={} to spec.template.spec, or make this field optional.",
		Rules: []string{"CC-12"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{
			machineTemplate: "CC-12", clusterTemplate: "CC-12", controlPlaneTemplate: "CC-12", configTemplate: "CC-12",
			poolTemplate: "CC-12",
		}.eachSchema(classSchema),
	},
}

func schemaConditions(s subject) {
	found, ok := s.schema.Property("status", "conditions")
	if !ok || s.contract != v1beta2 || found.Type != "array" {
		return
	}
	if kind := found.XListType; kind == nil || *kind != "map" || !slices.Equal(found.XListMapKeys, []string{"type"}) {
		s.broken(found.Path, "status.conditions of %s is not a map list with key type", s.kind())
	}
}

func definitionConversion(p *check.Pass) {
	for _, d := range p.Definitions() {
		if d.CRD.Spec.Conversion != nil && d.CRD.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter {
			continue
		}
		all := served(d)
		other := slices.IndexFunc(all, func(s source.Schema) bool { return !sameFields(all[0], s) })
		if other >= 0 {
			p.Broken("RV-16", "", d.Object, []string{"spec", "versions"},
				"%s serves %s and %s with different fields, but does not convert between them", d.CRD.Spec.Names.Kind,
				versionOf(d, all[0].Path), versionOf(d, all[other].Path))
		}
	}
}

// served returns the schemas of all served versions.
func served(d *source.Definition) []source.Schema {
	var all []source.Schema
	for _, v := range d.CRD.Spec.Versions {
		if s, ok := d.Schema(v.Name); ok && v.Served {
			all = append(all, s)
		}
	}
	return all
}

// sameFields reports whether two schemas have the same fields with the same types.
func sameFields(a, b source.Schema) bool {
	if a.Type != b.Type || !reflect.DeepEqual(sortedKeys(a.Properties), sortedKeys(b.Properties)) {
		return false
	}
	for _, name := range sortedKeys(a.Properties) {
		x, _ := a.Property(name)
		y, _ := b.Property(name)
		if !sameFields(x, y) {
			return false
		}
	}
	x, isList := a.Items()
	y, is := b.Items()
	return isList == is && (!is || sameFields(x, y))
}

func classSchema(s subject) {
	if s.contract != v1beta2 && s.Newest(v1beta2) != "" {
		return // core reads the newer version
	}
	template, ok := s.schema.Property("spec", "template")
	if !ok {
		return // template-spec reports this
	}
	spec, ok := template.Property("spec")
	if ok && slices.Contains(template.Required, "spec") && spec.Default == nil && len(spec.Required) == 0 &&
		!spec.Nullable {
		s.broken(spec.Path, "spec.template.spec of %s is required and has no default", s.kind())
	}
}
