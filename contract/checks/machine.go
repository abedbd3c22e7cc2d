package checks

import (
	"slices"

	"github.com/capstan-dev/capstan/contract/check"
)

var machineChecks = []*check.Check{
	{
		ID: "machine-provider-id", Level: check.Must, Contracts: contracts, Page: machinePage + "#inframachine-provider-id",
		Doc:   "A machine has spec.providerID, a string that whoever creates the machine may leave out.",
		Why:   "Core finds the Node of a Machine by it; required, no machine could be made from a template.",
		Fix:   "Add ProviderID string with json:\"providerID,omitempty\" and +optional to the spec.",
		Rules: []string{"IM-10"}, Needs: []check.Need{check.Definitions}, Run: machineProviderID,
	},
	{
		ID: "machine-provisioned", Level: check.Must, Contracts: contracts,
		Page:  machinePage + "#inframachine-initialization-completed",
		Doc:   "A machine has the boolean that its contract reads as provisioned.",
		Why:   "Core waits for it forever, and the Machine stays in phase Provisioning.",
		Fix:   "Add status.initialization.provisioned for contract v1beta2, status.ready for v1beta1, or correct the label.",
		Rules: []string{"IM-19"}, Needs: []check.Need{check.Definitions}, Run: machineProvisioned,
	},
	{
		ID: "machine-addresses", Level: check.Must, Contracts: contracts, Page: machinePage + "#inframachine-addresses",
		Doc:   "If a machine shows addresses, they are a list of objects with type and address at status.addresses.",
		Why:   "Core copies them to the Machine, and fails on another shape.",
		Fix:   "Use []clusterv1.MachineAddress.",
		Rules: []string{"IM-28"}, Needs: []check.Need{check.Definitions}, Run: machineAddresses,
	},
}

func machineProviderID(p *check.Pass) {
	for _, r := range resources(p, machine) {
		for _, s := range r.schemas() {
			if _, ok := r.field(p, "IM-10", s, "string", "spec", "providerID"); !ok {
				continue
			}
			if spec, _ := s.schema.Property("spec"); slices.Contains(spec.Required, "providerID") {
				p.Broken(
					"IM-10",
					s.contract,
					r.Object,
					append(spec.Path, "required"),
					"providerID of %s is required: no machine "+
						"has one when it is made",
					r.kind(),
				)
			}
		}
	}
}

func machineProvisioned(p *check.Pass) {
	for _, r := range resources(p, machine) {
		for _, s := range r.schemas() {
			reportProvisioned(p, "IM-19", r, s)
		}
	}
}

// reportProvisioned reports a rule as broken where the boolean of a contract is missing.
func reportProvisioned(p *check.Pass, rule string, r resource, s served) {
	if s.contract == v1beta2 {
		r.field(p, rule, s, "boolean", "status", "initialization", "provisioned")
		return
	}
	r.field(p, rule, s, "boolean", "status", "ready")
}

func machineAddresses(p *check.Pass) {
	for _, r := range resources(p, machine) {
		for _, s := range r.schemas() {
			addresses, ok := s.schema.Property("status", "addresses")
			if !ok {
				continue
			}
			item, isList := addresses.Items()
			if addresses.Type != "array" || !isList {
				p.Broken(
					"IM-28",
					s.contract,
					r.Object,
					addresses.Path,
					"status.addresses of %s is not a list",
					r.kind(),
				)
				continue
			}
			if anything(item) {
				continue
			}
			for _, name := range []string{"type", "address"} {
				if f, ok := item.Property(name); !ok || f.Type != "string" {
					p.Broken(
						"IM-28",
						s.contract,
						r.Object,
						f.Path,
						"an item of status.addresses of %s has no string %s",
						r.kind(),
						name,
					)
				}
			}
		}
	}
}
