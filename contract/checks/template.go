package checks

import (
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
)

// The rules about the templates of each role.
var (
	hasTemplateRules = ruleOf{machine: "IMT-01", config: "BP-20"}
	classRules       = ruleOf{cluster: "ICT-01", controlPlane: "CP-32", pool: "MP-22"}
	templateOfRules  = ruleOf{
		machineTemplate: "IMT-02", clusterTemplate: "ICT-02", controlPlaneTemplate: "CP-33", configTemplate: "BP-21",
		poolTemplate: "MP-23",
	}
	templateSpecRules = ruleOf{
		machineTemplate: "IMT-06", clusterTemplate: "ICT-04", controlPlaneTemplate: "CP-34", configTemplate: "BP-22",
		poolTemplate: "MP-24",
	}
)

var templateChecks = []*check.Check{
	{
		ID: "machine-template", Level: check.Must, Contracts: contracts,
		Page: machinePage + "#inframachinetemplate-inframachinetemplatelist-resource-definition",
		Doc: "Each InfraMachine kind and each BootstrapConfig kind has a template kind. The name of each template kind is " +
			"the name of an existing kind followed by Template.",
		Why:   "Without the template, no MachineDeployment and no control plane can create machines.",
		Fix:   "Add the template type.",
		Rules: append(hasTemplateRules.ids(), templateOfRules.ids()...), Needs: []check.Need{check.Definitions},
		Run: templates,
	},
	{
		ID: "class-template", Level: check.Should, Contracts: contracts,
		Page:  controlPlanePage + "#controlplanetemplate-controlplanetemplatelist-resource-definition",
		Doc:   "Each InfraCluster, ControlPlane and InfraMachinePool kind has a template kind.",
		Why:   "Without a template, no ClusterClass can use the kind.",
		Fix:   "Add the template type.",
		Rules: classRules.ids(), Needs: []check.Need{check.Definitions}, Run: classRules.each(lacksTemplate),
	},
	{
		ID: "template-spec", Level: check.Must, Contracts: contracts,
		Page:  machinePage + "#inframachinetemplate-inframachinetemplatelist-resource-definition",
		Doc:   "A template has the required field spec.template, which has the field spec.",
		Why:   "Core copies spec.template.spec into each object that it makes from the template.",
		Fix:   "Give the template the shape that Cluster API's book specifies.",
		Rules: templateSpecRules.ids(), Needs: []check.Need{check.Definitions},
		Run: templateSpecRules.eachSchema(templateSpec),
	},
	{
		ID: "template-fields", Level: check.Must, Contracts: contracts,
		Page: machinePage + "#inframachinetemplate-inframachinetemplatelist-resource-definition",
		Doc: "Each field of spec.template.spec of a machine template is also a field of the InfraMachine's spec, " +
			"with the same type.",
		Why: "If the InfraMachine lacks the field or gives it another type, the API server drops or refuses the " +
			"field when core makes a machine from the template.",
		Fix:   "Add the field to the machine, or remove it from the template.",
		Rules: []string{"IMT-07"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{machineTemplate: "IMT-07"}.eachSchema(templateFields),
	},
}

// beside returns the resource of a kind that is in the same group and file as another resource, or nil.
func beside(all []resource, other resource, kind string) *resource {
	i := slices.IndexFunc(all, func(r resource) bool {
		return r.kind() == kind && r.CRD.Spec.Group == other.CRD.Spec.Group && r.File == other.File
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

// lacksTemplate reports a resource without a template.
func lacksTemplate(s subject) {
	// The pool itself creates its machines.
	if !strings.HasSuffix(s.kind(), "MachinePoolMachine") &&
		beside(resources(s.pass), s.resource, s.kind()+"Template") == nil {
		s.broken(nil, "%s has no template %sTemplate", s.kind(), s.kind())
	}
}

func templates(p *check.Pass) {
	all := resources(p)
	hasTemplateRules.each(lacksTemplate)(p)
	templateOfRules.each(func(s subject) {
		base := strings.TrimSuffix(s.kind(), "Template")
		if beside(all, s.resource, base) == nil {
			s.broken([]string{"spec", "names", "kind"}, "%s is a template of %s, which does not exist", s.kind(), base)
		}
	})(p)
}

func templateSpec(s subject) {
	spec, ok := s.schema.Property("spec")
	if !ok {
		return // definition-parts reports this
	}
	if _, ok := s.field("object", "spec", "template"); !ok {
		return
	}
	if !slices.Contains(spec.Required, "template") {
		s.broken(spec.Path, "spec.template of %s is not required", s.kind())
	}
	s.field("object", "spec", "template", "spec")
}

func templateFields(s subject) {
	of := beside(resources(s.pass), s.resource, strings.TrimSuffix(s.kind(), "Template"))
	if of == nil {
		return
	}
	object, ok := of.Schema(of.Newest(s.contract))
	if !ok {
		return // contract-label-versions reports this
	}
	template, hasTemplate := s.schema.Property("spec", "template", "spec")
	spec, hasSpec := object.Property("spec")
	if !hasTemplate || !hasSpec || anything(spec) {
		return
	}
	for _, name := range sortedKeys(template.Properties) {
		mine, _ := template.Property(name)
		theirs, ok := spec.Property(name)
		switch {
		case !ok:
			s.broken(mine.Path, "%s has the field %s, which the machine does not have", s.kind(), name)
		case mine.Type != theirs.Type:
			s.broken(mine.Path, "%s of %s has type %q, and %q in the machine", name, s.kind(), mine.Type, theirs.Type)
		}
	}
}
