package release

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/yaml"
)

// Page generates docs/flavors.md: every template, class and variable of the repository.
func Page(source string) ([]byte, error) {
	const version = "v0.1.0"
	files, err := Repository(Options{Version: version, Source: source})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString("# Flavors, classes, variables\n\n`make generate` makes this page from the files of a release. " +
		"[clusterctl.md](clusterctl.md) says how to use these files.\n")
	if err := flavors(&out, files); err != nil {
		return nil, err
	}
	if err := classes(&out, files); err != nil {
		return nil, err
	}
	out.WriteString("\n## Variables of components\n\nWhen clusterctl installs or upgrades a provider, it takes the " +
		"values of these variables from the environment or from its configuration file.\n")
	for _, label := range []string{Infrastructure, RuntimeExtension} {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if strings.HasPrefix(name, label+"/") && strings.Contains(name, "components") {
				fmt.Fprintf(&out, "\n### %s\n\n", path.Base(name))
				if err := variableTable(&out, files[name]); err != nil {
					return nil, fmt.Errorf("reading %s: %w", name, err)
				}
			}
		}
	}
	return out.Bytes(), nil
}

// flavors writes the section on cluster templates.
func flavors(out *bytes.Buffer, files Files) error {
	out.WriteString("\n## Flavors\n\n`clusterctl generate cluster NAME --infrastructure capstan --flavor FLAVOR` " +
		"writes the manifests of a cluster. Without `--flavor`, clusterctl uses the flavor `default`.\n")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		flavor, ok := strings.CutPrefix(strings.TrimSuffix(path.Base(name), postfix), templatePrefix)
		if !ok {
			continue
		}
		if flavor = strings.TrimPrefix(flavor, "-"); flavor == "" {
			flavor = "default"
		}
		fmt.Fprintf(out, "\n### %s\n\n%s\n\n", flavor, comment(files[name]))
		if err := variableTable(out, files[name]); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
	}
	return nil
}

// classes writes the sections on ClusterClasses and their variables.
func classes(out *bytes.Buffer, files Files) error {
	out.WriteString("\n## ClusterClasses\n\nIf a flavor uses a ClusterClass that the Cluster's namespace does not " +
		"contain, clusterctl adds the ClusterClass to its output.\n")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasPrefix(path.Base(name), classPrefix) {
			continue
		}
		var class struct {
			Metadata struct{ Name string }
			Spec     struct {
				Variables []struct {
					Name     string
					Required bool
					Schema   struct {
						OpenAPIV3Schema schema `json:"openAPIV3Schema"`
					}
				}
			}
		}
		if err := yaml.Unmarshal(bytes.SplitN(files[name], []byte("\n---\n"), 2)[0], &class); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		fmt.Fprintf(out, "\n### %s\n\n%s\n", class.Metadata.Name, comment(files[name]))
		if len(class.Spec.Variables) == 0 {
			continue
		}
		out.WriteString("\n| Variable | Default | What |\n|---|---|---|\n")
		for _, v := range class.Spec.Variables {
			value := "not set"
			if v.Required {
				value = "required"
			}
			fmt.Fprintf(out, "| `%s` | %s | %s |\n", v.Name, value, v.Schema.OpenAPIV3Schema.Description)
			for _, field := range slices.Sorted(maps.Keys(v.Schema.OpenAPIV3Schema.Properties)) {
				p := v.Schema.OpenAPIV3Schema.Properties[field]
				value := "empty"
				switch {
				case slices.Contains(v.Schema.OpenAPIV3Schema.Required, field):
					value = "required"
				case p.Default != nil && p.Default != "":
					value = fmt.Sprintf("`%v`", p.Default)
				}
				fmt.Fprintf(out, "| `%s.%s` | %s | %s |\n", v.Name, field, value, p.Description)
			}
		}
	}
	return nil
}

// schema is the part of a variable's schema that the page shows.
type schema struct {
	Description string
	Required    []string
	Default     any
	Properties  map[string]schema
}

// comment returns the comment at the top of a file.
func comment(text []byte) string {
	var lines []string
	for line := range strings.Lines(string(text)) {
		words, ok := strings.CutPrefix(line, "# ")
		if !ok {
			break
		}
		lines = append(lines, strings.TrimSpace(words))
	}
	return strings.Join(lines, "\n")
}

// variableTable writes the variables of a file with their defaults.
func variableTable(out *bytes.Buffer, text []byte) error {
	defaults, err := yamlprocessor.NewSimpleProcessor().GetVariableMap(text)
	if err != nil {
		return err
	}
	out.WriteString("| Variable | Default | What |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		value := "required"
		if d := defaults[name]; d != nil && *d == `""` {
			value = "empty"
		} else if d != nil {
			value = "`" + *d + "`"
		}
		fmt.Fprintf(out, "| `%s` | %s | %s |\n", name, value, variables[name])
	}
	return nil
}
