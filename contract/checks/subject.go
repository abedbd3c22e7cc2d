package checks

import (
	"maps"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

// ruleOf maps roles to their rule about one matter. A missing role has no such rule.
type ruleOf map[role]string

// ids returns the rules in the order of roles, each once.
func (rules ruleOf) ids() []string {
	var all []string
	for _, r := range slices.Sorted(maps.Keys(rules)) {
		if !slices.Contains(all, rules[r]) {
			all = append(all, rules[r])
		}
	}
	return all
}

// subject is a resource under check, and the rule that it may break.
type subject struct {
	resource
	pass *check.Pass
	rule string
	// contract is the version under which core reads the schema. It is empty if the rule is the same in all versions.
	contract string
	schema   source.Schema
}

// each returns a check that calls the function look for each resource with a rule.
func (rules ruleOf) each(look func(subject)) func(*check.Pass) {
	return func(p *check.Pass) {
		for _, r := range resources(p) {
			if rule := rules[r.role]; rule != "" {
				look(subject{resource: r, pass: p, rule: rule})
			}
		}
	}
}

// eachSchema returns a check that calls the function look for each resource with a rule and for each contract, with the
// schema that core reads.
func (rules ruleOf) eachSchema(look func(subject)) func(*check.Pass) {
	return rules.each(func(s subject) {
		for _, contract := range contracts {
			if schema, ok := s.Schema(s.Newest(contract)); ok {
				s.contract, s.schema = contract, schema
				look(s)
			}
		}
	})
}

// broken reports the rule as broken in a field of the definition.
func (s subject) broken(path []string, format string, args ...any) {
	s.pass.Broken(s.rule, s.contract, s.Object, path, format, args...)
}

// replace adds a fix to the last finding: a new value for a field.
func (s subject) replace(path []string, value string) { s.pass.Replace(s.Object, path, value) }

// of returns the subject with another rule.
func (s subject) of(rule string) subject {
	s.rule = rule
	return s
}

// field looks up a field whose type the contract fixes. If it is missing or has another type, field reports the rule as
// broken and returns false.
func (s subject) field(want string, names ...string) (source.Schema, bool) {
	path := strings.Join(names, ".")
	got, ok := s.schema.Property(names...)
	switch {
	case !ok && anything(got):
		return got, false
	case !ok:
		s.broken(got.Path, "%s has no field %s, which contract %s asks for", s.kind(), path, s.contract)
		return got, false
	case got.Type != want:
		s.broken(got.Path, "%s of %s has type %q, and contract %s asks for %s", path, s.kind(), got.Type, s.contract,
			want)
		return got, false
	}
	return got, true
}

// optional reports the rule as broken if an object requires a field that does not exist yet at creation.
func (s subject) optional(object source.Schema, name, why string) {
	if slices.Contains(object.Required, name) {
		s.broken(append(object.Path, "required"), "%s of %s is required%s", name, s.kind(), why)
	}
}

// texts reports the rule as broken if an item lacks one of some string fields.
func (s subject) texts(item source.Schema, what string, names ...string) {
	if anything(item) {
		return
	}
	at, missing := item.Path, []string(nil)
	for _, name := range names {
		if f, ok := item.Property(name); !ok || f.Type != "string" {
			at, missing = f.Path, append(missing, name)
		}
	}
	if len(missing) > 0 {
		s.broken(at, "%s of %s has no string %s", what, s.kind(), strings.Join(missing, " and "))
	}
}

// want is a field that a contract requires.
type want struct{ contract, kind, path string }

// wants returns a function that checks the fields which a subject's contract requires.
func wants(all ...want) func(subject) {
	return func(s subject) {
		for _, w := range all {
			if w.contract == s.contract {
				s.field(w.kind, strings.Split(w.path, ".")...)
			}
		}
	}
}
