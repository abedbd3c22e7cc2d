package checks

import "github.com/capstan-dev/capstan/contract/check"

// conditionRules are the rules about the form of optional conditions.
var conditionRules = ruleOf{controlPlane: "CP-29", config: "BP-16", pool: "MP-18"}

var bootstrapChecks = []*check.Check{
	{
		ID: "bootstrap-data", Level: check.Must, Contracts: contracts, Page: bootstrapPage + "#bootstrapconfig-data-secret",
		Doc: "A bootstrap configuration has the field status.dataSecretName for the name of the Secret with the " +
			"bootstrap data.",
		Why:   "Core copies this name to the Machine. Without the field, no machine gets its bootstrap data.",
		Fix:   "Add the field DataSecretName of type string, with json:\"dataSecretName,omitempty\", to the status.",
		Rules: []string{"BP-11"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{config: "BP-11"}.eachSchema(wants(
			want{v1beta1, "string", "status.dataSecretName"}, want{v1beta2, "string", "status.dataSecretName"},
		)),
	},
	{
		ID: "bootstrap-initialized", Level: check.Must, Contracts: contracts,
		Page: bootstrapPage + "#bootstrapconfig-initialization-completed",
		Doc: "A bootstrap configuration has the boolean field that its contract uses to report that the bootstrap data is " +
			"ready.",
		Why:   "Without this field, core waits forever, and the Machine stays in phase Pending.",
		Fix:   "Add status.initialization.dataSecretCreated for contract v1beta2, or status.ready for contract v1beta1.",
		Rules: []string{"BP-14"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{config: "BP-14"}.eachSchema(wants(
			want{v1beta1, "boolean", "status.ready"},
			want{v1beta2, "boolean", "status.initialization.dataSecretCreated"},
		)),
	},
	{
		ID: "resource-conditions", Level: check.Must, Contracts: contracts,
		Page: controlPlanePage + "#controlplane-conditions",
		Doc: "If a control plane, bootstrap configuration or InfraMachinePool has conditions, each condition has " +
			"type and status as strings.",
		Why:   "Core mirrors one of these conditions, and cannot read conditions of another shape.",
		Fix:   "Use []metav1.Condition for contract v1beta2, and Cluster API's own condition type for v1beta1.",
		Rules: conditionRules.ids(), Needs: []check.Need{check.Definitions}, Run: conditionRules.eachSchema(conditions),
	},
}
