package release

import (
	"fmt"
	"path"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/openapi"
)

// HooksFile is the OpenAPI document of all hooks, by the name that it has in releases of Cluster API (RS-09). It stands
// beside the components of the runtime extension.
const HooksFile = "runtime-sdk-openapi.yaml"

// addHooks adds the document of the hooks that this release calls and serves.
func addHooks(files Files, o Options) error {
	document, err := openapi.JSON(hook.ClusterAPI(), openapi.Options{
		Title: "Cluster API runtime hooks", Version: o.Version,
	})
	if err != nil {
		return fmt.Errorf("describing the hooks: %w", err)
	}
	text, err := yaml.JSONToYAML(document)
	if err != nil {
		return fmt.Errorf("writing %s: %w", HooksFile, err)
	}
	files[path.Join(RuntimeExtension, o.Version, HooksFile)] = text
	return nil
}
