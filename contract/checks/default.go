package checks

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

var defaultChecks = []*check.Check{
	{
		ID: "schema-defaults", Level: check.Should, Contracts: contracts,
		Page: "https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#defaulting",
		Doc: "All versions that define a default for a field define the same default. A field has the same default in a " +
			"template and in the resource that is created from the template. If the default of the parent object sets the " +
			"field, it sets the same value.",
		Why: "If the defaults differ and a client leaves the field out, the field's value depends on which default " +
			"applies. Server-side apply and the topology controller then see a change that nobody made.",
		Fix:   "Give the field the same default everywhere, or keep only one of the defaults.",
		Rules: []string{"RV-22", "RV-23", "RV-24"}, Needs: []check.Need{check.Definitions}, Run: schemaDefaults,
	},
	{
		ID: "template-immutable", Level: check.Must, Contracts: contracts,
		Page: machinePage + "#inframachinetemplate-support-for-ssa-dry-run",
		Doc:  "A template's schema has no validation rule that makes a field immutable.",
		Why: "A validation rule in a schema cannot recognize the topology controller's dry runs, so it also refuses the " +
			"change in a dry run. If a ClusterClass changes such a field, the topology controller stops.",
		Fix:   "Forbid changes in a webhook, which lets the topology controller's dry runs pass (topology.IsDryRunRequest).",
		Rules: dryRunRules.ids(), Needs: []check.Need{check.Definitions}, Run: dryRunRules.eachSchema(templateImmutable),
	},
}

func schemaDefaults(p *check.Pass) {
	all := resources(p)
	for _, d := range p.Definitions() {
		var first source.Schema
		for _, s := range served(d) {
			spec, ok := s.Property("spec") // nobody applies a status
			if !ok {
				continue
			}
			contradictions(p, d, spec)
			if first.JSONSchemaProps == nil {
				first = spec
				continue
			}
			fights(p, d, "RV-22", first, spec, "version "+versionOf(d, first.Path))
		}
	}
	templateOfRules.each(func(s subject) {
		of := beside(all, s.resource, strings.TrimSuffix(s.kind(), "Template"))
		if of == nil {
			return // class-templates reports this
		}
		for _, v := range s.CRD.Spec.Versions {
			template, ok := s.Schema(v.Name)
			object, exists := of.Schema(v.Name)
			if !ok || !exists || !v.Served {
				continue
			}
			mine, has := template.Property("spec", "template", "spec")
			if theirs, had := object.Property("spec"); has && had {
				fights(p, s.Definition, "RV-23", theirs, mine, of.kind())
			}
		}
	})(p)
}

// fights compares the schemas mine and other. It reports each field of mine whose default differs from the default of
// that field in other.
func fights(p *check.Pass, d *source.Definition, rule string, other, mine source.Schema, where string) {
	walkBoth(other, mine, func(was, is source.Schema) {
		a, had := decoded(was.Default)
		b, has := decoded(is.Default)
		if had && has && was.Type == is.Type && !agree(complete(a, was), complete(b, is)) {
			p.Broken(rule, "", d.Object, append(slices.Clone(is.Path), "default"),
				"%s of %s %s has the default %s, but %s in %s", fieldName(is.Path), d.CRD.Spec.Names.Kind,
				versionOf(d, is.Path), is.Default.Raw, was.Default.Raw, where)
		}
	})
}

// complete fills in the defaults of a value's fields.
func complete(value any, s source.Schema) any {
	object, ok := value.(map[string]any)
	if !ok {
		return value
	}
	object = maps.Clone(object)
	for name := range s.Properties {
		field, _ := s.Property(name)
		if own, has := decoded(field.Default); has && object[name] == nil {
			object[name] = own
		}
		if object[name] != nil {
			object[name] = complete(object[name], field)
		}
	}
	return object
}

// agree reports whether two values are the same in the fields that both have.
func agree(a, b any) bool {
	x, isObject := a.(map[string]any)
	y, is := b.(map[string]any)
	if !isObject || !is {
		return reflect.DeepEqual(a, b)
	}
	for name := range x {
		if other, has := y[name]; has && !agree(x[name], other) {
			return false
		}
	}
	return true
}

// decoded decodes a default. The second result reports whether there is one.
func decoded(j *apiextensionsv1.JSON) (any, bool) {
	if j == nil {
		return nil, false
	}
	var value any
	err := json.Unmarshal(j.Raw, &value)
	return value, err == nil
}

// contradictions reports objects in a schema whose default sets a field to a value that differs from the field's own
// default.
func contradictions(p *check.Pass, d *source.Definition, s source.Schema) {
	walkBoth(s, s, func(_, at source.Schema) {
		value, _ := decoded(at.Default)
		object, isObject := value.(map[string]any)
		if !isObject {
			return
		}
		for _, name := range sortedKeys(object) {
			field, _ := at.Property(name)
			own, has := decoded(field.Default)
			if len(field.Path) > len(at.Path) && has && !agree(complete(own, field), complete(object[name], field)) {
				p.Broken("RV-24", "", d.Object, append(slices.Clone(at.Path), "default"), "the default of %s of %s %s sets %s "+
					"to a value other than its own default %s", fieldName(at.Path), d.CRD.Spec.Names.Kind, versionOf(d, at.Path), name,
					field.Default.Raw)
			}
		}
	})
}

func templateImmutable(s subject) {
	if s.contract != v1beta2 && s.Newest(v1beta2) != "" {
		return // core reads the newer version
	}
	spec, ok := s.schema.Property("spec")
	if !ok {
		return // definition-parts reports this
	}
	var first []string
	var fields []string
	walkBoth(spec, spec, func(_, at source.Schema) {
		for _, rule := range at.XValidations {
			if text := strings.Join(strings.Fields(rule.Rule), ""); text == "self==oldSelf" || text == "oldSelf==self" {
				if fields = append(fields, fieldName(at.Path)); first == nil {
					first = at.Path
				}
			}
		}
	})
	if len(fields) > 0 {
		s.broken(append(slices.Clone(first), "x-kubernetes-validations"), "%s forbids every change of %s, also in a dry run",
			s.kind(), strings.Join(fields, ", "))
	}
}
