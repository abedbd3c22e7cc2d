package checks

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

func againstSchema(p *check.Pass) {
	eachVersion(p, func(d pair, before, now source.Schema) {
		c := comparison{report: func(at []string, format string, args ...any) {
			field := fieldName(at)
			if field == "" {
				field = "the object"
			}
			p.Broken("RV-03", "", d.now.Object, at, "%s of %s %s %s", field, d.now.CRD.Spec.Names.Kind,
				versionOf(d.now, at), fmt.Sprintf(format, args...))
		}}
		c.compare(before, now)
	})
}

// comparison compares two schemas of one version.
type comparison struct {
	report func(at []string, format string, args ...any)
}

func (c comparison) compare(before, now source.Schema) {
	if before.Type != now.Type && now.Type != "" && !(before.Type == "integer" && now.Type == "number") {
		c.report(now.Path, "had type %q and now has %q", before.Type, now.Type)
		return
	}
	c.values(before, now)
	c.bounds(before, now)
	for _, name := range sortedKeys(before.Properties) {
		was, _ := before.Property(name)
		if is, ok := now.Property(name); ok {
			c.compare(was, is)
		} else if !anything(now) && now.AdditionalProperties == nil {
			c.report(now.Path, "had the field %s, which is gone", name)
		}
	}
	for _, name := range now.Required {
		field, has := now.Property(name)
		if !slices.Contains(before.Required, name) && (!has || field.Default == nil) {
			c.report(append(slices.Clone(now.Path), "required"), "requires %s, which could be left out before", name)
		}
	}
	if was, ok := before.Items(); ok {
		if is, ok := now.Items(); ok {
			c.compare(was, is)
		}
	}
	if was, ok := additional(before); ok {
		if is, ok := additional(now); ok {
			c.compare(was, is)
		}
	}
	if anything(before) && !anything(now) {
		c.report(now.Path, "kept fields that it does not name, but drops them now")
	}
}

// additional returns the schema of the values of a map.
func additional(s source.Schema) (source.Schema, bool) {
	if s.AdditionalProperties == nil || s.AdditionalProperties.Schema == nil {
		return s, false
	}
	return source.Schema{
		JSONSchemaProps: s.AdditionalProperties.Schema, Path: append(slices.Clone(s.Path), "additionalProperties"),
	}, true
}

// values compares the values that a field accepts.
func (c comparison) values(before, now source.Schema) {
	if len(now.Enum) > 0 {
		var gone []string
		for _, value := range before.Enum {
			if !slices.ContainsFunc(now.Enum, func(v apiextensionsv1.JSON) bool { return string(v.Raw) == string(value.Raw) }) {
				gone = append(gone, string(value.Raw))
			}
		}
		switch {
		case len(before.Enum) == 0:
			c.report(now.Path, "accepts only some values, but accepted any before")
		case len(gone) > 0:
			c.report(now.Path, "no longer accepts %s", strings.Join(gone, ", "))
		}
	}
	if now.Pattern != "" && now.Pattern != before.Pattern {
		c.report(now.Path, "has pattern %q, and had %q", now.Pattern, before.Pattern)
	}
	if now.Format != "" && before.Format != now.Format {
		c.report(now.Path, "has format %q, and had %q", now.Format, before.Format)
	}
	if before.Nullable && !now.Nullable {
		c.report(now.Path, "accepted null, and no longer does")
	}
	if text(before.XListType) != text(now.XListType) && now.Type == "array" && text(now.XListType) != "atomic" {
		c.report(now.Path, "had list type %q and now has %q: duplicate items, which were accepted, are refused",
			text(before.XListType), text(now.XListType))
	}
}

func text(s *string) string {
	if s == nil {
		return "atomic" // the default of a list
	}
	return *s
}

// bounds reports limits that became tighter.
func (c comparison) bounds(before, now source.Schema) {
	for name, pair := range map[string][2]*int64{
		"maxLength": {before.MaxLength, now.MaxLength}, "maxItems": {before.MaxItems, now.MaxItems},
		"maxProperties": {before.MaxProperties, now.MaxProperties},
	} {
		if was, is := pair[0], pair[1]; is != nil && (was == nil || *is < *was) {
			c.report(now.Path, "has %s %d, and had %s", name, *is, limit(was))
		}
	}
	for name, pair := range map[string][2]*int64{
		"minLength": {before.MinLength, now.MinLength}, "minItems": {before.MinItems, now.MinItems},
		"minProperties": {before.MinProperties, now.MinProperties},
	} {
		if was, is := pair[0], pair[1]; is != nil && *is > 0 && (was == nil || *is > *was) {
			c.report(now.Path, "has %s %d, and had %s", name, *is, limit(was))
		}
	}
	if is := now.Maximum; is != nil && (before.Maximum == nil || *is < *before.Maximum) {
		c.report(now.Path, "has maximum %v, and had %s", *is, limit(before.Maximum))
	}
	if is := now.Minimum; is != nil && (before.Minimum == nil || *is > *before.Minimum) {
		c.report(now.Path, "has minimum %v, and had %s", *is, limit(before.Minimum))
	}
}

func limit[N int64 | float64](value *N) string {
	if value == nil {
		return "none"
	}
	return fmt.Sprint(*value)
}

func againstImmutable(p *check.Pass) {
	eachVersion(p, func(d pair, before, now source.Schema) {
		walkBoth(before, now, func(was, is source.Schema) {
			for i, rule := range is.XValidations {
				had := slices.ContainsFunc(was.XValidations, func(v apiextensionsv1.ValidationRule) bool {
					return strings.Join(strings.Fields(v.Rule), " ") == strings.Join(strings.Fields(rule.Rule), " ")
				})
				if strings.Contains(rule.Rule, "oldSelf") && !had {
					at := append(slices.Clone(is.Path), "x-kubernetes-validations", fmt.Sprint(i))
					p.Broken("RV-04", "", d.now.Object, at, "%s of %s %s has a new rule about its old value: %s",
						fieldName(is.Path), d.now.CRD.Spec.Names.Kind, versionOf(d.now, is.Path), rule.Rule)
				}
			}
		})
	})
}

// walkBoth calls the function look with two schemas, and with the two schemas of each field that both have.
func walkBoth(before, now source.Schema, look func(was, is source.Schema)) {
	look(before, now)
	for _, name := range sortedKeys(before.Properties) {
		was, _ := before.Property(name)
		if is, ok := now.Property(name); ok {
			walkBoth(was, is, look)
		}
	}
	if was, ok := before.Items(); ok {
		if is, ok := now.Items(); ok {
			walkBoth(was, is, look)
		}
	}
}
