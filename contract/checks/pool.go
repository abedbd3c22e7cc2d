package checks

import "github.com/capstan-dev/capstan/contract/check"

var poolChecks = []*check.Check{
	{
		ID: "pool-provisioned", Level: check.Must, Contracts: contracts,
		Page: poolPage + "#inframachinepool-initialization-completed",
		Doc: "An InfraMachinePool has the boolean field that its contract uses to report that the pool is " +
			"provisioned.",
		Why: "Without this field, core waits forever, and the MachinePool stays in phase Provisioning. Core v1.14 " +
			"still reads status.ready in both contracts, so keep that field as well.",
		Fix: "Add status.initialization.provisioned for contract v1beta2, or status.ready for contract v1beta1. If the " +
			"contract label is wrong, correct the label instead.",
		Rules: []string{"MP-16"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{pool: "MP-16"}.eachSchema(provisioned),
	},
	{
		ID: "pool-instances", Level: check.Must, Contracts: contracts, Page: poolPage + "#inframachinepool-provideridlist",
		Doc: "An InfraMachinePool lists its instances in spec.providerIDList, and counts them in status.replicas.",
		Why: "Core finds the Nodes of the pool by the list, and deletes Nodes that have left the list.",
		Fix: "Add the optional field ProviderIDList of type []string to the spec, and the field Replicas of type " +
			"int32 to the status.",
		Rules: []string{"MP-15", "MP-20"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{pool: "MP-15"}.eachSchema(poolInstances),
	},
	{
		ID: "pool-machines", Level: check.Must, Contracts: contracts, Page: poolPage + "#machinepoolmachines-support",
		Doc: "If an InfraMachinePool names the kind of its machines, this kind is a string at " +
			"status.infrastructureMachineKind.",
		Why: "Core uses the kind to create a Machine for each replica, and fails to read a value that is not a " +
			"string.",
		Fix:   "Use a string.",
		Rules: []string{"MP-12"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{pool: "MP-12"}.eachSchema(poolMachines),
	},
}

func poolInstances(s subject) {
	list, ok := s.field("array", "spec", "providerIDList")
	s.of("MP-20").field("integer", "status", "replicas")
	if !ok {
		return
	}
	if item, ok := list.Items(); !ok || item.Type != "string" {
		s.broken(list.Path, "spec.providerIDList of %s is not a list of strings", s.kind())
	}
	spec, _ := s.schema.Property("spec")
	s.optional(spec, "providerIDList", ": a pool has no instances when it is created")
}

func poolMachines(s subject) {
	if _, ok := s.schema.Property("status", "infrastructureMachineKind"); ok {
		s.field("string", "status", "infrastructureMachineKind")
	}
}
