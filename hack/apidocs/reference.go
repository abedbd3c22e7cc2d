package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// reference returns the document.
func reference(definitions []apiextensionsv1.CustomResourceDefinition) string {
	var b strings.Builder
	b.WriteString("# API reference\n\nMade by `make generate` from the CustomResourceDefinitions; edit the types in " +
		"`api/` instead.\n\n")
	b.WriteString("Every field is optional unless it says that it is required. Ids such as IM-10 name rules of Cluster " +
		"API's provider contracts.\n\n")
	b.WriteString("| Kind | Short name | Versions (the stored one first) | Serves contract |\n|---|---|---|---|\n")
	for _, crd := range definitions {
		fmt.Fprintf(&b, "| [%s](#%s) | `%s` | %s | %s |\n", crd.Spec.Names.Kind, strings.ToLower(crd.Spec.Names.Kind),
			strings.Join(crd.Spec.Names.ShortNames, "`, `"), strings.Join(names(crd), ", "), strings.Join(contracts(crd), ", "))
	}
	for _, crd := range definitions {
		kind(&b, crd)
	}
	return b.String()
}

// versions returns the versions of a kind, the stored one first.
func versions(crd apiextensionsv1.CustomResourceDefinition) []apiextensionsv1.CustomResourceDefinitionVersion {
	all := slices.Clone(crd.Spec.Versions)
	slices.SortStableFunc(all, func(a, b apiextensionsv1.CustomResourceDefinitionVersion) int {
		switch {
		case a.Storage:
			return -1
		case b.Storage:
			return 1
		default:
			return -strings.Compare(a.Name, b.Name)
		}
	})
	return all
}

func names(crd apiextensionsv1.CustomResourceDefinition) (all []string) {
	for _, v := range versions(crd) {
		all = append(all, v.Name)
	}
	return all
}

// contracts returns the API version that serves each contract version.
func contracts(crd apiextensionsv1.CustomResourceDefinition) (all []string) {
	for _, label := range slices.Sorted(maps.Keys(crd.Labels)) {
		if contract, ok := strings.CutPrefix(label, "cluster.x-k8s.io/v"); ok {
			all = append(all, fmt.Sprintf("v%s by %s", contract, crd.Labels[label]))
		}
	}
	return all
}

// kind writes the chapter of one kind.
func kind(b *strings.Builder, crd apiextensionsv1.CustomResourceDefinition) {
	name := crd.Spec.Names.Kind
	fmt.Fprintf(b, "\n## %s\n", name)
	for i, v := range versions(crd) {
		schema := v.Schema.OpenAPIV3Schema
		if i == 0 {
			fmt.Fprintf(b, "\n%s\n", paragraph(schema.Description))
		}
		fmt.Fprintf(b, "\n### %s %s\n\n`apiVersion: %s/%s`\n\n", name, v.Name, crd.Spec.Group, v.Name)
		columns(b, v.AdditionalPrinterColumns)
		if len(schema.XValidations) > 0 {
			b.WriteString("Rules:\n\n")
			for _, rule := range schema.XValidations {
				fmt.Fprintf(b, "- %s\n", rule.Message)
			}
			b.WriteString("\n")
		}
		b.WriteString("| Field | Type | Meaning |\n|---|---|---|\n")
		for _, part := range []string{"spec", "status"} {
			if property, ok := schema.Properties[part]; ok {
				field(b, part, property, slices.Contains(schema.Required, part))
			}
		}
	}
}

// columns writes what "kubectl get" shows.
func columns(b *strings.Builder, all []apiextensionsv1.CustomResourceColumnDefinition) {
	var always, wide []string
	for _, c := range all {
		if text := fmt.Sprintf("%s (%s)", c.Name, strings.TrimSuffix(lower(c.Description), ".")); c.Priority == 0 {
			always = append(always, text)
		} else {
			wide = append(wide, text)
		}
	}
	fmt.Fprintf(b, "`kubectl get` shows: %s", strings.Join(always, ", "))
	if len(wide) > 0 {
		fmt.Fprintf(b, "; with `-o wide` also: %s", strings.Join(wide, ", "))
	}
	b.WriteString(".\n\n")
}

// field writes the rows of a field and of the fields below it.
func field(b *strings.Builder, path string, s apiextensionsv1.JSONSchemaProps, required bool) {
	meaning := paragraph(s.Description)
	for _, rule := range s.XValidations {
		meaning += " Rule: " + rule.Message + "."
	}
	if s.Default != nil {
		meaning += fmt.Sprintf(" Default: `%s`.", s.Default.Raw)
	}
	kind := describe(s)
	if required {
		kind += ", required"
	}
	fmt.Fprintf(b, "| `%s` | %s | %s |\n", path, cell(kind), cell(meaning))
	switch {
	case s.Items != nil:
		s, path = *s.Items.Schema, path+"[]"
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		s, path = *s.AdditionalProperties.Schema, path+".<name>"
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		field(b, path+"."+name, s.Properties[name], slices.Contains(s.Required, name))
	}
}

// describe returns the type and limits of a field.
func describe(s apiextensionsv1.JSONSchemaProps) string {
	switch {
	case len(s.Enum) > 0:
		var values []string
		for _, e := range s.Enum {
			values = append(values, "`"+strings.Trim(string(e.Raw), `"`)+"`")
		}
		return "one of " + strings.Join(values, ", ")
	case s.Items != nil:
		text := "list of " + describe(*s.Items.Schema)
		if len(s.XListMapKeys) > 0 {
			text += ", each with its own " + strings.Join(s.XListMapKeys, " and ")
		}
		return text + between(s.MinItems, s.MaxItems, "items")
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return "map of " + describe(*s.AdditionalProperties.Schema)
	case s.Type == "string" && s.Format == "date-time":
		return "time"
	case s.Type == "string":
		return "string" + between(s.MinLength, s.MaxLength, "characters")
	case s.Type == "integer":
		return "integer" + between(whole(s.Minimum), whole(s.Maximum), "")
	default:
		return s.Type
	}
}

func whole(f *float64) *int64 {
	if f == nil {
		return nil
	}
	n := int64(*f)
	return &n
}

// between describes limits.
func between(low, high *int64, unit string) string {
	switch {
	case low != nil && high != nil:
		return strings.TrimRight(fmt.Sprintf(", %d to %d %s", *low, *high, unit), " ")
	case high != nil:
		return strings.TrimRight(fmt.Sprintf(", at most %d %s", *high, unit), " ")
	case low != nil:
		return strings.TrimRight(fmt.Sprintf(", at least %d %s", *low, unit), " ")
	default:
		return ""
	}
}

// paragraph joins the lines of a comment into one.
func paragraph(s string) string { return strings.Join(strings.Fields(s), " ") }

// cell makes a text suitable for a table cell.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;").Replace(s)
}

func lower(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}
