package checks

import (
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
)

var clusterChecks = []*check.Check{
	{
		ID: "cluster-provisioned", Level: check.Must, Contracts: contracts,
		Page:  clusterPage + "#infracluster-initialization-completed",
		Doc:   "A cluster has the boolean that its contract reads as provisioned.",
		Why:   "Core waits for it forever, and no machine of the cluster is made.",
		Fix:   "Add status.initialization.provisioned for contract v1beta2, status.ready for v1beta1, or correct the label.",
		Rules: []string{"IC-22"}, Needs: []check.Need{check.Definitions}, Run: clusterProvisioned,
	},
	{
		ID: "cluster-endpoint", Level: check.Must, Contracts: contracts,
		Page:  clusterPage + "#infracluster-control-plane-endpoint",
		Doc:   "If a cluster has spec.controlPlaneEndpoint, it is optional and has host and port.",
		Why:   "Core copies the endpoint to the Cluster; required, the cluster could not be made before there is one.",
		Fix:   "Use the type of the book: host a string, port an int32, both optional.",
		Rules: []string{"IC-16"}, Needs: []check.Need{check.Definitions}, Run: clusterEndpoint,
	},
	{
		ID: "cluster-failure-domains", Level: check.Must, Contracts: contracts,
		Page: clusterPage + "#infracluster-failure-domains",
		Doc: "If a cluster shows failure domains, they have the shape of its contract: a list in v1beta2, a map in " +
			"v1beta1.",
		Why:   "Core fails to read the other shape, and the Cluster never gets its infrastructure.",
		Fix:   "For v1beta2 use []clusterv1.FailureDomain as a map list by name, for v1beta1 a map of names.",
		Rules: []string{"IC-19", "IC-20"}, Needs: []check.Need{check.Definitions}, Run: clusterFailureDomains,
	},
	{
		ID: "cluster-conditions", Level: check.Must, Contracts: contracts, Page: clusterPage + "#infracluster-conditions",
		Doc:   "If a cluster has status.conditions, each has type and status as strings.",
		Why:   "Core mirrors the condition Ready of the cluster, and cannot read another shape.",
		Fix:   "Use []metav1.Condition for contract v1beta2, the conditions of Cluster API for v1beta1.",
		Rules: []string{"IC-26"}, Needs: []check.Need{check.Definitions}, Run: clusterConditions,
	},
}

func clusterProvisioned(p *check.Pass) {
	for _, r := range resources(p, cluster) {
		for _, s := range r.schemas() {
			reportProvisioned(p, "IC-22", r, s)
		}
	}
}

func clusterEndpoint(p *check.Pass) {
	for _, r := range resources(p, cluster) {
		for _, s := range r.schemas() {
			endpoint, ok := s.schema.Property("spec", "controlPlaneEndpoint")
			if !ok || anything(endpoint) {
				continue
			}
			for name, want := range map[string]string{"host": "string", "port": "integer"} {
				r.field(p, "IC-16", s, want, "spec", "controlPlaneEndpoint", name)
			}
			if spec, _ := s.schema.Property("spec"); slices.Contains(spec.Required, "controlPlaneEndpoint") {
				p.Broken(
					"IC-16",
					s.contract,
					r.Object,
					append(spec.Path, "required"),
					"controlPlaneEndpoint of %s is required",
					r.kind(),
				)
			}
		}
	}
}

func clusterFailureDomains(p *check.Pass) {
	for _, r := range resources(p, cluster) {
		for _, s := range r.schemas() {
			domains, ok := s.schema.Property("status", "failureDomains")
			switch {
			case !ok:
			case s.contract == v1beta1 && (domains.Type != "object" || domains.AdditionalProperties == nil):
				p.Broken("IC-19", s.contract, r.Object, domains.Path,
					"status.failureDomains of %s is not a map, as contract v1beta1 "+
						"has it", r.kind())
			case s.contract == v1beta2 && domains.Type != "array":
				p.Broken("IC-19", s.contract, r.Object, domains.Path,
					"status.failureDomains of %s has type %q, and contract v1beta2 "+
						"asks for a list", r.kind(), domains.Type)
			case s.contract == v1beta2:
				if kind := domains.XListType; kind == nil || *kind != "map" || !slices.Equal(domains.XListMapKeys,
					[]string{"name"}) {
					p.Broken(
						"IC-20",
						s.contract,
						r.Object,
						domains.Path,
						"status.failureDomains of %s does not keep names unique: "+
							"x-kubernetes-list-type is not map by name",
						r.kind(),
					)
				}
				if item, ok := domains.Items(); ok {
					if name, ok := item.Property("name"); !ok || name.Type != "string" {
						p.Broken(
							"IC-19",
							s.contract,
							r.Object,
							name.Path,
							"a failure domain of %s has no string name",
							r.kind(),
						)
					}
				}
			}
		}
	}
}

func clusterConditions(p *check.Pass) {
	for _, r := range resources(p, cluster) {
		for _, s := range r.schemas() {
			conditions, ok := s.schema.Property("status", "conditions")
			if !ok {
				continue
			}
			item, isList := conditions.Items()
			if !isList {
				p.Broken(
					"IC-26",
					s.contract,
					r.Object,
					conditions.Path,
					"status.conditions of %s is not a list",
					r.kind(),
				)
				continue
			}
			var missing []string
			for _, name := range []string{"type", "status"} {
				if f, ok := item.Property(name); (!ok || f.Type != "string") && !anything(item) {
					missing = append(missing, name)
				}
			}
			if len(missing) > 0 {
				p.Broken("IC-26", s.contract, r.Object, item.Path, "a condition of %s has no string %s", r.kind(),
					strings.Join(missing, " and "))
			}
		}
	}
}
