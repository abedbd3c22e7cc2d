package checks

import (
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

// role is what a definition is in the contract of infrastructure.
type role int

const (
	machine role = iota
	machineTemplate
	cluster
	clusterTemplate
)

// resource is a definition that has a role.
type resource struct {
	*source.Definition
	role role
}

// kind returns the kind that is defined.
func (r resource) kind() string { return r.CRD.Spec.Names.Kind }

// resources returns the definitions of an infrastructure provider that have one of some roles; without roles, of all.
func resources(p *check.Pass, roles ...role) []resource {
	var all []resource
	provider := p.Release.Type()
	defined := p.Definitions()
	for _, d := range defined {
		if d.Problem != nil || !isInfrastructure(d.CRD.Spec.Group, provider) {
			continue
		}
		r, ok := roleOf(d.CRD.Spec.Names.Kind)
		if !ok || len(roles) > 0 && !slices.Contains(roles, r) || r == machine && !isMachine(d, defined) {
			continue
		}
		all = append(all, resource{d, r})
	}
	return all
}

// isInfrastructure reports whether a group is one of infrastructure: its name says so, or it is that of an
// infrastructure provider and its name says nothing else.
func isInfrastructure(group string, provider source.Type) bool {
	labels := strings.Split(group, ".")
	if slices.Contains(labels, "infrastructure") {
		return true
	}
	others := []string{"bootstrap", "controlplane", "ipam", "addons", "runtime"}
	named := slices.ContainsFunc(others, func(other string) bool { return slices.Contains(labels, other) })
	return provider == source.Infrastructure && !named
}

// roleOf returns the role that the name of a kind says.
func roleOf(kind string) (role, bool) {
	for _, suffix := range []struct {
		text string
		role role
	}{
		{"MachineTemplate", machineTemplate}, {"ClusterTemplate", clusterTemplate},
		{"Machine", machine}, {"Cluster", cluster},
	} {
		if strings.HasSuffix(kind, suffix.text) && kind != suffix.text {
			return suffix.role, true
		}
	}
	return 0, false
}

// isMachine reports whether a definition whose name says so is one of machines: it has a template, or one of the fields
// that only machines have. Others are what a provider makes machines of, for example its hosts.
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

// anything reports whether a schema keeps fields that it does not name.
func anything(s source.Schema) bool {
	return s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
}
