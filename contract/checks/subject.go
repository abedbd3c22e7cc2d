package checks

import (
	"maps"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

// ruleOf maps roles to the rule that says a thing of them. A role that it lacks has no such rule.
type ruleOf map[role]string

// ids returns the rules by role, each once.
func (rules ruleOf) ids() []string {
	var all []string
	for _, r := range slices.Sorted(maps.Keys(rules)) {
		if !slices.Contains(all, rules[r]) {
			all = append(all, rules[r])
		}
	}
	return all
}

// subject is a resource that a check looks at, with the rule that it may break.
type subject struct {
	resource
	pass *check.Pass
	rule string
	// contract is the version that core reads the schema under. Empty: the rule is the same in all.
	contract string
	schema   source.Schema
}

// each returns a run over each resource that has a rule.
func (rules ruleOf) each(look func(subject)) func(*check.Pass) {
	return func(p *check.Pass) {
		for _, r := range resources(p) {
			if rule := rules[r.role]; rule != "" {
				look(subject{resource: r, pass: p, rule: rule})
			}
		}
	}
}

// eachSchema returns a run over the schema that core reads, for each contract of each resource that has a rule.
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

// broken says that the rule is broken in a field of the definition.
func (s subject) broken(path []string, format string, args ...any) {
	s.pass.Broken(s.rule, s.contract, s.Object, path, format, args...)
}

// replace adds a fix to what was said last: another value for a field.
func (s subject) replace(path []string, value string) { s.pass.Replace(s.Object, path, value) }

// of returns the subject with another rule.
func (s subject) of(rule string) subject {
	s.rule = rule
	return s
}

// field looks up a field whose type the contract says, and says that the rule is broken where it is missing or of
// another type. The second result reports whether all is well.
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

// optional says that the rule is broken where an object requires a field that is missing when it is made.
func (s subject) optional(object source.Schema, name, why string) {
	if slices.Contains(object.Required, name) {
		s.broken(append(object.Path, "required"), "%s of %s is required%s", name, s.kind(), why)
	}
}

// texts says that the rule is broken where an item lacks one of some strings.
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

// want is a field that a contract asks for.
type want struct{ contract, kind, path string }

// wants returns a look at the fields that the contract of a subject asks for.
func wants(all ...want) func(subject) {
	return func(s subject) {
		for _, w := range all {
			if w.contract == s.contract {
				s.field(w.kind, strings.Split(w.path, ".")...)
			}
		}
	}
}
