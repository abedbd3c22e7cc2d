package release

import (
	"fmt"
	"path"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/openapi"
)

// HooksFile is the name of the OpenAPI document of all hooks, as in releases of Cluster API (rule RS-09 of the Runtime
// SDK contract). It is next to the components of the runtime extension.
const HooksFile = "runtime-sdk-openapi.yaml"

// addHooks adds the OpenAPI document of the hooks that this release calls and serves.
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
