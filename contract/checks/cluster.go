package checks

import (
	"slices"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

var clusterChecks = []*check.Check{
	{
		ID: "cluster-provisioned", Level: check.Must, Contracts: contracts,
		Page: clusterPage + "#infracluster-initialization-completed",
		Doc: "An InfraCluster has the boolean field that its contract uses to report that the infrastructure is " +
			"provisioned.",
		Why: "Without this field, core waits forever, and no machine of the cluster is created.",
		Fix: "Add status.initialization.provisioned for contract v1beta2, or status.ready for contract v1beta1. If the " +
			"contract label is wrong, correct the label instead.",
		Rules: []string{"IC-22"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{cluster: "IC-22"}.eachSchema(provisioned),
	},
	{
		ID: "cluster-endpoint", Level: check.Must, Contracts: contracts,
		Page: clusterPage + "#infracluster-control-plane-endpoint",
		Doc:  "If an InfraCluster has spec.controlPlaneEndpoint, this field is optional, and has host and port.",
		Why: "Core copies the endpoint to the Cluster. If the field is required, the InfraCluster can't be created " +
			"before there is an endpoint.",
		Fix:   "Use the type from Cluster API's book: host is a string, port is an int32, and both are optional.",
		Rules: []string{"IC-16"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{cluster: "IC-16"}.eachSchema(endpoint),
	},
	{
		ID: "cluster-failure-domains", Level: check.Must, Contracts: contracts,
		Page: clusterPage + "#infracluster-failure-domains",
		Doc: "If an InfraCluster reports failure domains, they have the shape that its contract defines: a list in " +
			"v1beta2, a map in v1beta1.",
		Why: "If the failure domains have another shape, core fails to read them, and the Cluster never gets its " +
			"infrastructure.",
		Fix: "For v1beta2, use []clusterv1.FailureDomain with the markers +listType=map and +listMapKey=name. For v1beta1, " +
			"use a map from names to failure domains.",
		Rules: []string{"IC-19", "IC-20"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{cluster: "IC-19"}.eachSchema(failureDomains),
	},
	{
		ID: "cluster-conditions", Level: check.Must, Contracts: contracts, Page: clusterPage + "#infracluster-conditions",
		Doc:   "If an InfraCluster has status.conditions, each condition has type and status as strings.",
		Why:   "Core mirrors the condition Ready of the InfraCluster, and cannot read conditions of another shape.",
		Fix:   "Use []metav1.Condition for contract v1beta2, and Cluster API's own condition type for v1beta1.",
		Rules: []string{"IC-26"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{cluster: "IC-26"}.eachSchema(conditions),
	},
}

func endpoint(s subject) {
	found, ok := s.schema.Property("spec", "controlPlaneEndpoint")
	if !ok || anything(found) {
		return
	}
	s.field("string", "spec", "controlPlaneEndpoint", "host")
	s.field("integer", "spec", "controlPlaneEndpoint", "port")
	spec, _ := s.schema.Property("spec")
	s.optional(spec, "controlPlaneEndpoint", "")
}

func failureDomains(s subject) {
	domains, ok := s.schema.Property("status", "failureDomains")
	switch {
	case !ok:
	case s.contract == v1beta1:
		if domains.Type != "object" || domains.AdditionalProperties == nil {
			s.broken(domains.Path, "status.failureDomains of %s is not a map, but contract v1beta1 requires a map",
				s.kind())
		}
	case domains.Type != "array":
		s.broken(domains.Path, "status.failureDomains of %s has type %q, and contract v1beta2 asks for a list",
			s.kind(), domains.Type)
	default:
		failureDomainList(s, domains)
	}
}

// failureDomainList checks the list of contract v1beta2.
func failureDomainList(s subject, domains source.Schema) {
	if kind := domains.XListType; kind == nil || *kind != "map" || !slices.Equal(domains.XListMapKeys, []string{"name"}) {
		s.of("IC-20").broken(domains.Path, "status.failureDomains of %s does not keep names unique: "+
			"x-kubernetes-list-type is not map by name", s.kind())
	}
	if item, ok := domains.Items(); ok {
		s.texts(item, "a failure domain", "name")
	}
}

func conditions(s subject) {
	found, ok := s.schema.Property("status", "conditions")
	if !ok {
		return
	}
	item, isList := found.Items()
	if !isList {
		s.broken(found.Path, "status.conditions of %s is not a list", s.kind())
		return
	}
	s.texts(item, "a condition", "type", "status")
}
