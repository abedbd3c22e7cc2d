package release

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
)

// TestVariables: the variables of all files are documented and in the simple form; those of components have a prefix
// and a default.
func TestVariables(t *testing.T) {
	common := []string{"CLUSTER_NAME", "KUBERNETES_VERSION", "CONTROL_PLANE_MACHINE_COUNT", "WORKER_MACHINE_COUNT"}
	any, plain := regexp.MustCompile(`\$\{[^}]*\}`), regexp.MustCompile(`^\$\{([A-Z][A-Z0-9_]*)(:=[^{}$]+)?\}$`)
	used, ofComponents, ofTemplates := map[string]bool{}, 0, 0
	for name, text := range repository(t, options) {
		for _, v := range any.FindAllString(string(text), -1) {
			if strings.Contains(v, " ") {
				t.Errorf("%s: variable %s has blanks", name, v)
			}
			t.Attr("rule", "CT-55")
			if strings.Contains(v[2:], "$") {
				t.Errorf("%s: variable %s is nested", name, v)
			}
			t.Attr("rule", "CT-56")
			if !plain.MatchString(v) {
				t.Errorf("%s: variable %s is not of the form ${NAME} or ${NAME:=default}", name, v)
			}
		}
		defaults, err := yamlprocessor.NewSimpleProcessor().GetVariableMap(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for variable, value := range defaults {
			used[variable] = true
			components := strings.Contains(name, "components")
			if components {
				ofComponents++
			} else {
				ofTemplates++
			}
			if components && value == nil {
				t.Errorf("%s: variable %s has no default", name, variable)
			}
			if !strings.HasPrefix(variable, "CAPSTAN_") && (components || !slices.Contains(common, variable)) {
				t.Errorf("%s: variable %s does not begin with CAPSTAN_", name, variable)
			}
			t.Attr("rule", "CT-54")
		}
	}
	if ofComponents == 0 {
		t.Error("components have no variables")
	}
	t.Attr("rule", "CT-53")
	if ofTemplates == 0 {
		t.Error("templates have no variables")
	}
	t.Attr("rule", "CT-70")
	for _, variable := range slices.Sorted(maps.Keys(used)) {
		if variables[variable] == "" {
			t.Errorf("variable %s is not described: add it to variables.go", variable)
		}
	}
	for _, variable := range slices.Sorted(maps.Keys(variables)) {
		if !used[variable] {
			t.Errorf("variable %s is described, but no file uses it", variable)
		}
	}
}
