package checks

import (
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

// role is the role of a definition in the contracts.
type role int

const (
	machine role = iota
	machineTemplate
	cluster
	clusterTemplate
	controlPlane
	controlPlaneTemplate
	config
	configTemplate
	pool
	poolTemplate
)

// resource is a definition that has a role.
type resource struct {
	*source.Definition
	role role
}

// kind returns the kind that the resource defines.
func (r resource) kind() string { return r.CRD.Spec.Names.Kind }

// resources returns a provider's definitions that have one of the given roles, or any role if none is given.
func resources(p *check.Pass, roles ...role) []resource {
	var all []resource
	provider := p.Release.Type()
	defined := p.Definitions()
	for _, d := range defined {
		if d.Problem != nil {
			continue
		}
		r, ok := roleOf(d.CRD.Spec.Names.Kind, d.CRD.Spec.Group, provider)
		if !ok || len(roles) > 0 && !slices.Contains(roles, r) || r == machine && !isMachine(d, defined) {
			continue
		}
		all = append(all, resource{d, r})
	}
	return all
}

// suffixes are the endings of kinds for each role, longer ones first, and the provider type they belong to.
var suffixes = []struct {
	text string
	role role
	of   source.Type
}{
	{"MachinePoolTemplate", poolTemplate, source.Infrastructure},
	{"MachinePool", pool, source.Infrastructure},
	{"MachineTemplate", machineTemplate, source.Infrastructure},
	{"ClusterTemplate", clusterTemplate, source.Infrastructure},
	{"Machine", machine, source.Infrastructure},
	{"Cluster", cluster, source.Infrastructure},
	{"ControlPlaneTemplate", controlPlaneTemplate, source.ControlPlane},
	{"ControlPlane", controlPlane, source.ControlPlane},
	{"ConfigTemplate", configTemplate, source.Bootstrap},
	{"Config", config, source.Bootstrap},
}

// roleOf derives the role from a kind and its group. Some infrastructure providers define control planes in their own
// group.
func roleOf(kind, group string, provider source.Type) (role, bool) {
	for _, suffix := range suffixes {
		if !strings.HasSuffix(kind, suffix.text) || kind == suffix.text {
			continue
		}
		of := isOf(group, suffix.of, provider) ||
			suffix.of == source.ControlPlane && isOf(group, source.Infrastructure, provider)
		return suffix.role, of
	}
	return 0, false
}

// isMachine reports whether a definition named like a machine defines one: it has a template, or a field that only
// machines have. Other definitions with such a name describe what a provider makes machines from, for example hosts.
func isMachine(d *source.Definition, defined []*source.Definition) bool {
	template := d.CRD.Spec.Names.Kind + "Template"
	if slices.ContainsFunc(defined, func(other *source.Definition) bool {
		return other.CRD.Spec.Group == d.CRD.Spec.Group && other.CRD.Spec.Names.Kind == template
	}) {
		return true
	}
	for _, v := range d.CRD.Spec.Versions {
		schema, ok := d.Schema(v.Name)
		if !ok {
			continue
		}
		for _, path := range [][]string{{"spec", "providerID"}, {"status", "initialization", "provisioned"}} {
			if _, has := schema.Property(path...); has {
				return true
			}
		}
	}
	return false
}

// isOf reports whether a group belongs to a provider type: its name says so, or the provider has that type and the
// group's name indicates no other.
func isOf(group string, want, provider source.Type) bool {
	labels := strings.Split(group, ".")
	names := map[source.Type]string{
		source.Infrastructure: "infrastructure", source.Bootstrap: "bootstrap", source.ControlPlane: "controlplane",
	}
	if slices.Contains(labels, names[want]) {
		return true
	}
	named := slices.ContainsFunc([]string{"infrastructure", "bootstrap", "controlplane", "ipam", "addons", "runtime"},
		func(other string) bool { return slices.Contains(labels, other) })
	return provider == want && !named
}

// anything reports whether a schema preserves unknown fields.
func anything(s source.Schema) bool {
	return s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
}
