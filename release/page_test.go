package release

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
)

// TestPageIsUpToDate compares docs/flavors.md with the files that it describes and checks that it mentions each of
// them.
func TestPageIsUpToDate(t *testing.T) {
	want, err := Page("..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../docs/flavors.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/flavors.md does not match the templates: run make generate and commit the result")
	}
	for name, text := range repository(t, options) {
		defaults, err := yamlprocessor.NewSimpleProcessor().GetVariableMap(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		row := func(variable string) bool {
			_, after, ok := bytes.Cut(got, []byte("| `"+variable+"` | "))
			cells := strings.Split(string(bytes.SplitN(after, []byte("\n"), 2)[0]), " | ")
			return ok && len(cells) == 2 && len(cells[1]) > 5
		}
		for variable := range defaults {
			if !row(variable) {
				t.Errorf("docs/flavors.md does not describe %s of %s", variable, name)
			}
			if strings.Contains(name, "components") {
				t.Attr("rule", "CT-59")
			} else {
				t.Attr("rule", "CT-71")
			}
		}
	}
	for name := range templateFiles(t, templatePrefix) {
		flavor := strings.TrimSuffix(strings.TrimPrefix(name, "cluster-template"), ".yaml")
		if flavor = strings.TrimPrefix(flavor, "-"); flavor == "" {
			flavor = "default"
		}
		if !bytes.Contains(got, []byte("\n### "+flavor+"\n")) {
			t.Errorf("docs/flavors.md does not list flavor %s", flavor)
		}
		t.Attr("rule", "CT-67")
	}
	for name := range templateFiles(t, classPrefix) {
		class := strings.TrimSuffix(strings.TrimPrefix(name, "clusterclass-"), ".yaml")
		if !bytes.Contains(got, []byte("\n### "+class+"\n")) {
			t.Errorf("docs/flavors.md does not list class %s", class)
		}
		t.Attr("rule", "CT-80")
	}
}
