package checks

import (
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

var templateChecks = []*check.Check{
	{
		ID: "machine-template", Level: check.Must, Contracts: contracts,
		Page:  machinePage + "#inframachinetemplate-inframachinetemplatelist-resource-definition",
		Doc:   "Each kind of machine has a template, named by the kind and Template.",
		Why:   "Without it no MachineDeployment and no control plane can make machines.",
		Fix:   "Add the type of the template.",
		Rules: []string{"IMT-01", "IMT-02", "ICT-02"}, Needs: []check.Need{check.Definitions}, Run: machineTemplates,
	},
	{
		ID: "template-spec", Level: check.Must, Contracts: contracts,
		Page:  machinePage + "#inframachinetemplate-inframachinetemplatelist-resource-definition",
		Doc:   "A template has spec.template, required, and below it spec.",
		Why:   "Core copies spec.template.spec into each object that it makes from the template.",
		Fix:   "Give the template the shape of the book.",
		Rules: []string{"IMT-06", "ICT-04"}, Needs: []check.Need{check.Definitions}, Run: templateSpec,
	},
	{
		ID: "template-fields", Level: check.Must, Contracts: contracts,
		Page:  machinePage + "#inframachinetemplate-inframachinetemplatelist-resource-definition",
		Doc:   "Each field of spec.template.spec of a machine template is a field of the machine, with the same type.",
		Why:   "The API server drops or refuses the field when core makes a machine from the template.",
		Fix:   "Add the field to the machine, or take it out of the template.",
		Rules: []string{"IMT-07"}, Needs: []check.Need{check.Definitions}, Run: templateFields,
	},
}

// beside returns the resource of a kind in the group and the file of another one. Nil: there is none.
func beside(all []resource, other resource, kind string) *resource {
	i := slices.IndexFunc(all, func(r resource) bool {
		return r.kind() == kind && r.CRD.Spec.Group == other.CRD.Spec.Group && r.File == other.File
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

func machineTemplates(p *check.Pass) {
	all := resources(p)
	for _, r := range all {
		base, isTemplate := strings.CutSuffix(r.kind(), "Template")
		switch {
		// Machines of a pool are made by the pool.
		case r.role == machine && !strings.HasSuffix(r.kind(), "MachinePoolMachine") && beside(all, r,
			r.kind()+"Template") == nil:
			p.Broken("IMT-01", "", r.Object, nil, "%s has no template %sTemplate", r.kind(), r.kind())
		case r.role == machineTemplate && isTemplate && beside(all, r, base) == nil:
			p.Broken(
				"IMT-02",
				"",
				r.Object,
				[]string{"spec", "names", "kind"},
				"%s is a template of %s, which does not exist",
				r.kind(),
				base,
			)
		case r.role == clusterTemplate && isTemplate && beside(all, r, base) == nil:
			p.Broken(
				"ICT-02",
				"",
				r.Object,
				[]string{"spec", "names", "kind"},
				"%s is a template of %s, which does not exist",
				r.kind(),
				base,
			)
		}
	}
}

func templateSpec(p *check.Pass) {
	rules := ruleOf{machineTemplate: "IMT-06", clusterTemplate: "ICT-04"}
	for _, r := range resources(p, machineTemplate, clusterTemplate) {
		for _, s := range r.schemas() {
			rule := rules[r.role]
			spec, ok := s.schema.Property("spec")
			if !ok {
				continue // definition-parts says so
			}
			if _, ok := r.field(p, rule, s, "object", "spec", "template"); !ok {
				continue
			}
			if !slices.Contains(spec.Required, "template") {
				p.Broken(rule, s.contract, r.Object, spec.Path, "spec.template of %s is not required", r.kind())
			}
			r.field(p, rule, s, "object", "spec", "template", "spec")
		}
	}
}

func templateFields(p *check.Pass) {
	all := resources(p)
	for _, r := range all {
		of := beside(all, r, strings.TrimSuffix(r.kind(), "Template"))
		if r.role != machineTemplate || of == nil {
			continue
		}
		for _, s := range r.schemas() {
			object, ok := of.Schema(of.Newest(s.contract))
			if !ok {
				continue // contract-label-versions says so
			}
			template, hasTemplate := s.schema.Property("spec", "template", "spec")
			spec, hasSpec := object.Property("spec")
			if hasTemplate && hasSpec && !anything(spec) {
				compareFields(p, r, s.contract, template, spec)
			}
		}
	}
}

func compareFields(p *check.Pass, r resource, contract string, template, spec source.Schema) {
	for _, name := range sortedKeys(template.Properties) {
		mine, _ := template.Property(name)
		theirs, ok := spec.Property(name)
		switch {
		case !ok:
			p.Broken(
				"IMT-07",
				contract,
				r.Object,
				mine.Path,
				"%s has the field %s, which the machine has not",
				r.kind(),
				name,
			)
		case mine.Type != theirs.Type:
			p.Broken(
				"IMT-07",
				contract,
				r.Object,
				mine.Path,
				"%s of %s has type %q, and %q in the machine",
				name,
				r.kind(),
				mine.Type,
				theirs.Type,
			)
		}
	}
}
