package checks

import (
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

var controlPlaneChecks = []*check.Check{
	{
		ID: "provider-resource", Level: check.Must, Contracts: contracts,
		Page: controlPlanePage + "#controlplane-controlplanelist-resource-definition",
		Doc: "A control plane provider has a definition of a kind that ends in ControlPlane. A bootstrap provider has a " +
			"definition of a kind that ends in Config.",
		Why:   "Without the definition, a Cluster or a Machine has nothing to refer to.",
		Fix:   "Add the definition to the components.",
		Rules: []string{"CP-08", "BP-08"}, Needs: []check.Need{check.Directory, check.Components}, Run: providerResource,
	},
	{
		ID: "control-plane-initialized", Level: check.Must, Contracts: contracts,
		Page: controlPlanePage + "#controlplane-initialization-completed",
		Doc: "A control plane has the boolean field that its contract uses to report that the control plane is " +
			"initialized.",
		Why: "Without this field, core waits forever, and no worker joins the cluster.",
		Fix: "Add status.initialization.controlPlaneInitialized for contract v1beta2, or status.initialized for contract " +
			"v1beta1.",
		Rules: []string{"CP-27"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{controlPlane: "CP-27"}.eachSchema(wants(
			want{v1beta1, "boolean", "status.initialized"},
			want{v1beta2, "boolean", "status.initialization.controlPlaneInitialized"},
		)),
	},
	{
		ID: "control-plane-endpoint", Level: check.Must, Contracts: contracts,
		Page: controlPlanePage + "#controlplane-endpoint",
		Doc:  "If a control plane has spec.controlPlaneEndpoint, this field is optional, and has host and port.",
		Why: "Core copies the endpoint to the Cluster. If the field is required, the control plane can't be created " +
			"before there is an endpoint.",
		Fix:   "Use the type from Cluster API's book: host is a string, port is an int32, and both are optional.",
		Rules: []string{"CP-12"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{controlPlane: "CP-12"}.eachSchema(endpoint),
	},
	{
		ID: "control-plane-replicas", Level: check.Must, Contracts: contracts,
		Page: controlPlanePage + "#controlplane-replicas",
		Doc: "A control plane whose replicas can be set has spec.replicas, and the counters and the scale " +
			"subresource that its contract requires.",
		Why: "Without these fields, core cannot see whether the control plane is scaling, and holds back upgrades of " +
			"clusters with a ClusterClass.",
		Fix:   "Add the field that the message names, and the marker +kubebuilder:subresource:scale with the paths of CP-16.",
		Rules: []string{"CP-14", "CP-15", "CP-16"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{controlPlane: "CP-14"}.eachSchema(controlPlaneReplicas),
	},
	{
		ID: "control-plane-version", Level: check.Must, Contracts: contracts,
		Page: controlPlanePage + "#controlplane-version",
		Doc:  "A control plane whose version can be set has spec.version, and says in status which versions run.",
		Why: "The topology controller writes spec.version and waits until the status shows that version. Without " +
			"these fields, clusters with a ClusterClass are never upgraded.",
		Fix: "Add the field Version of type string to the spec. To the status, add the field Versions of type " +
			"[]clusterv1.StatusVersion, or the field Version of type string.",
		Rules: []string{"CP-17", "CP-18"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{controlPlane: "CP-17"}.eachSchema(controlPlaneVersion),
	},
	{
		ID: "control-plane-machines", Level: check.Must, Contracts: contracts,
		Page: controlPlanePage + "#controlplane-machines",
		Doc: "A control plane that creates Machines has the fields of spec.machineTemplate that its contract requires: " +
			"metadata, timeouts, and the reference to an InfraMachineTemplate.",
		Why: "The topology controller writes fields of spec.machineTemplate, and the API server drops those that the " +
			"definition does not have.",
		Fix:   "Add the field that the message names. For contract v1beta2, most fields are below spec.machineTemplate.spec.",
		Rules: []string{"CP-21"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{controlPlane: "CP-21"}.eachSchema(controlPlaneMachines),
	},
	{
		ID: "control-plane-rollout", Level: check.Must, Contracts: contracts,
		Page: controlPlanePage + "#controlplane-rolloutafter",
		Doc: "A control plane that can schedule a rollout takes the time of the rollout from the field that its contract " +
			"defines.",
		Why: "The command clusterctl alpha rollout restart writes a time into the field that the contract defines. A " +
			"control plane that uses another field ignores this time.",
		Fix:   "Add spec.rollout.after for contract v1beta2, or spec.rolloutAfter for contract v1beta1.",
		Rules: []string{"CP-26"}, Needs: []check.Need{check.Definitions},
		Run: ruleOf{controlPlane: "CP-26"}.eachSchema(controlPlaneRollout),
	},
}

func providerResource(p *check.Pass) {
	want := map[source.Type]struct {
		role role
		rule string
		name string
	}{
		source.ControlPlane: {controlPlane, "CP-08", "ControlPlane"}, source.Bootstrap: {config, "BP-08", "Config"},
	}[p.Release.Type()]
	if want.rule != "" && len(resources(p, want.role)) == 0 {
		p.BrokenAt(want.rule, source.Position{File: p.Release.Of(source.Components)[0].Path},
			"no definition has a kind that ends in %s", want.name)
	}
}

// has reports whether the schema has a field.
func (s subject) has(path string) bool {
	_, ok := s.schema.Property(strings.Split(path, ".")...)
	return ok
}

func controlPlaneReplicas(s subject) {
	scale := s.scale()
	if !s.has("spec.replicas") && !s.has("status.replicas") && scale == nil {
		return // its replicas cannot be set
	}
	s.field("integer", "spec", "replicas")
	counters := s.of("CP-15")
	counters.field("string", "status", "selector")
	names := map[string][]string{
		v1beta1: {"replicas", "readyReplicas", "updatedReplicas", "unavailableReplicas"},
		v1beta2: {"replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"},
	}
	for _, name := range names[s.contract] {
		counters.field("integer", "status", name)
	}
	const wants = ".status.selector .spec.replicas .status.replicas"
	got := ""
	if scale != nil {
		got = strings.Join([]string{scale.selector, scale.spec, scale.status}, " ")
	}
	if got != wants {
		s.of("CP-16").broken(s.schema.Path[:3], "the scale subresource of %s has paths %q, but the contract asks for %q",
			s.kind(), got, wants)
	}
}

// scaling holds the paths of a scale subresource.
type scaling struct{ selector, spec, status string }

// scale returns the scale subresource of the version that core reads, or nil.
func (s subject) scale() *scaling {
	for _, v := range s.CRD.Spec.Versions {
		if v.Name != s.Newest(s.contract) || v.Subresources == nil || v.Subresources.Scale == nil {
			continue
		}
		found := v.Subresources.Scale
		paths := &scaling{spec: found.SpecReplicasPath, status: found.StatusReplicasPath}
		if found.LabelSelectorPath != nil {
			paths.selector = *found.LabelSelectorPath
		}
		return paths
	}
	return nil
}

func controlPlaneVersion(s subject) {
	running := s.has("status.version") || s.has("status.versions")
	template := beside(resources(s.pass), s.resource, s.kind()+"Template") != nil
	if !s.has("spec.version") && !running && !template {
		return // its version cannot be set
	}
	s.field("string", "spec", "version")
	switch {
	case s.contract == v1beta1:
		s.of("CP-18").field("string", "status", "version")
	case !running:
		status, _ := s.schema.Property("status")
		s.of("CP-18").broken(status.Path, "%s has neither status.versions nor status.version", s.kind())
	}
}

func controlPlaneMachines(s subject) {
	template, ok := s.schema.Property("spec", "machineTemplate")
	if !ok || len(template.Properties) == 0 {
		return // it makes no Machines; some such kinds have an empty field, which other tools expect
	}
	var missing []string
	for _, w := range []want{
		{v1beta1, "object", "spec.machineTemplate.infrastructureRef"},
		{v1beta1, "object", "spec.machineTemplate.metadata"},
		{v1beta1, "string", "spec.machineTemplate.nodeDrainTimeout"},
		{v1beta1, "string", "spec.machineTemplate.nodeVolumeDetachTimeout"},
		{v1beta1, "string", "spec.machineTemplate.nodeDeletionTimeout"},
		{v1beta2, "object", "spec.machineTemplate.spec.infrastructureRef"},
		{v1beta2, "object", "spec.machineTemplate.metadata"},
		{v1beta2, "integer", "spec.machineTemplate.spec.deletion.nodeDrainTimeoutSeconds"},
		{v1beta2, "integer", "spec.machineTemplate.spec.deletion.nodeVolumeDetachTimeoutSeconds"},
		{v1beta2, "integer", "spec.machineTemplate.spec.deletion.nodeDeletionTimeoutSeconds"},
	} {
		path := strings.Split(w.path, ".")
		if got, ok := s.schema.Property(path...); w.contract == s.contract && !ok && !anything(got) {
			missing = append(missing, w.path)
		} else if w.contract == s.contract {
			s.field(w.kind, path...)
		}
	}
	if len(missing) > 0 {
		s.broken(template.Path, "%s has no %s, which contract %s asks for", s.kind(), strings.Join(missing, " and "),
			s.contract)
	}
}

func controlPlaneRollout(s subject) {
	if s.has("spec.rolloutAfter") || s.has("spec.rollout.after") {
		wants(want{v1beta1, "string", "spec.rolloutAfter"}, want{v1beta2, "string", "spec.rollout.after"})(s)
	}
}
