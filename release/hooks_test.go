package release

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/openapi"
)

// TestHooksDocument reads the OpenAPI document of a release. It describes a path for each hook of the catalog, with a
// request body and a response body.
func TestHooksDocument(t *testing.T) {
	text := repository(t, options).in(RuntimeExtension, options.Version)["runtime-sdk-openapi.yaml"]
	var document openapi.Document
	if err := yaml.UnmarshalStrict(text, &document); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(document.OpenAPI, "3.0.") || document.Info.Version != options.Version {
		t.Errorf("the document is in OpenAPI %s and has version %s", document.OpenAPI, document.Info.Version)
	}
	all := hook.ClusterAPI().All()
	if len(all) < 10 || len(document.Paths) != len(all) {
		t.Errorf("the document has %d paths for %d hooks", len(document.Paths), len(all))
	}
	paths := strings.ToLower(strings.Join(slices.Collect(maps.Keys(document.Paths)), "\n"))
	for _, h := range all {
		path := "/" + strings.ToLower(h.ID.Group+"/"+h.ID.Version+"/"+h.ID.Name)
		if !strings.Contains(paths, path) {
			t.Errorf("hook %s has no path %s", h.ID, path)
		}
	}
	t.Attr("rule", "RS-09")
	for _, m := range regexp.MustCompile(`#/components/schemas/([\w.-]+)`).FindAllStringSubmatch(string(text), -1) {
		if _, ok := document.Components.Schemas[m[1]]; !ok {
			t.Errorf("schema %s is referenced but not defined", m[1])
		}
	}
}
