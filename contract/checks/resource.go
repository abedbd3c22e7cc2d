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

// ruleOf maps roles to the rule that says a thing of them. A role that it lacks has no such rule.
type ruleOf map[role]string

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
	for _, d := range p.Definitions() {
		if d.Problem != nil || !isInfrastructure(d.CRD.Spec.Group, provider) {
			continue
		}
		if r, ok := roleOf(d.CRD.Spec.Names.Kind); ok && (len(roles) == 0 || slices.Contains(roles, r)) {
			all = append(all, resource{d, r})
		}
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
		{"MachineTemplate", machineTemplate}, {"ClusterTemplate", clusterTemplate}, {"Machine", machine}, {"Cluster",
			cluster},
	} {
		if strings.HasSuffix(kind, suffix.text) && kind != suffix.text {
			return suffix.role, true
		}
	}
	return 0, false
}

// served is the schema that core reads of a resource under a contract version.
type served struct {
	contract string
	schema   source.Schema
}

// schemas returns the schema for each contract that the labels of a resource name.
func (r resource) schemas() []served {
	var all []served
	for _, contract := range contracts {
		if schema, ok := r.Schema(r.Newest(contract)); ok {
			all = append(all, served{contract, schema})
		}
	}
	return all
}

// anything reports whether a schema keeps fields that it does not name.
func anything(s source.Schema) bool {
	return s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
}

// field looks up a field whose type the contract says, and reports a rule as broken where it is missing or of another
// type.
func (r resource) field(p *check.Pass, rule string, s served, want string, names ...string) (source.Schema, bool) {
	path := strings.Join(names, ".")
	got, ok := s.schema.Property(names...)
	switch {
	case !ok && anything(got):
		return got, false
	case !ok:
		p.Broken(rule, s.contract, r.Object, got.Path, "%s has no field %s, which contract %s asks for", r.kind(), path,
			s.contract)
		return got, false
	case got.Type != want:
		p.Broken(
			rule,
			s.contract,
			r.Object,
			got.Path,
			"%s of %s has type %q, and contract %s asks for %s",
			path,
			r.kind(),
			got.Type,
			s.contract,
			want,
		)
		return got, false
	}
	return got, true
}
