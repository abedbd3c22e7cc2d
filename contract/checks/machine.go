package checks

import "github.com/capstan-dev/capstan/contract/check"

var machineChecks = []*check.Check{
	{
		ID: "machine-provider-id", Level: check.Must, Contracts: contracts, Page: machinePage + "#inframachine-provider-id",
		Doc: "An InfraMachine has the field spec.providerID, an optional string: whoever creates the InfraMachine " +
			"may leave it out.",
		Why: "Core finds the Node of a Machine by this id. If the field were required, no machine could be created " +
			"from a template.",
		Fix: "Add the field ProviderID of type string, with json:\"providerID,omitempty\" and +optional, to the " +
			"spec.",
		Rules: []string{"IM-10"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{machine: "IM-10"}.eachSchema(machineProviderID),
	},
	{
		ID: "machine-provisioned", Level: check.Must, Contracts: contracts,
		Page: machinePage + "#inframachine-initialization-completed",
		Doc: "An InfraMachine has the boolean field that its contract uses to report that the infrastructure is " +
			"provisioned.",
		Why: "Without this field, core waits forever, and the Machine stays in phase Provisioning.",
		Fix: "Add status.initialization.provisioned for contract v1beta2, or status.ready for contract v1beta1. If the " +
			"contract label is wrong, correct the label instead.",
		Rules: []string{"IM-19"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{machine: "IM-19"}.eachSchema(provisioned),
	},
	{
		ID: "machine-addresses", Level: check.Must, Contracts: contracts, Page: machinePage + "#inframachine-addresses",
		Doc:   "If an InfraMachine reports addresses, status.addresses is a list of objects with type and address.",
		Why:   "Core copies the addresses to the Machine, and fails if they have another shape.",
		Fix:   "Use []clusterv1.MachineAddress.",
		Rules: []string{"IM-28"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{machine: "IM-28"}.eachSchema(machineAddresses),
	},
}

func machineProviderID(s subject) {
	if _, ok := s.field("string", "spec", "providerID"); ok {
		spec, _ := s.schema.Property("spec")
		s.optional(spec, "providerID", ": no machine has one when it is created")
	}
}

// provisioned checks the boolean that each contract reads as provisioned.
var provisioned = wants(
	want{v1beta1, "boolean", "status.ready"}, want{v1beta2, "boolean", "status.initialization.provisioned"},
)

func machineAddresses(s subject) {
	addresses, ok := s.schema.Property("status", "addresses")
	if !ok {
		return
	}
	item, isList := addresses.Items()
	if addresses.Type != "array" || !isList {
		s.broken(addresses.Path, "status.addresses of %s is not a list", s.kind())
		return
	}
	s.texts(item, "an item of status.addresses", "type", "address")
}
