package manifests

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/config/extension"
)

//go:embed access.yaml
var access string

// Access returns the roles of the plane's processes and who has them.
func Access() ([]Object, error) {
	documents := strings.Split(access, "\n---\n")
	for _, document := range strings.Split(extension.Roles, "\n---\n") {
		// Its ServiceAccount is for a Pod; here it is a process with a certificate.
		if strings.Contains(document, "\nkind: ClusterRole\n") {
			documents = append(documents, document)
		}
	}
	var objects []Object
	for _, document := range documents {
		data, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			return nil, fmt.Errorf("reading the roles: %w", err)
		}
		var what head
		if err := json.Unmarshal(data, &what); err != nil {
			return nil, fmt.Errorf("reading the roles: %w", err)
		}
		objects = append(objects, Object{
			Kind: what.Kind, Name: what.Metadata.Name, JSON: data,
			Collection: "/apis/rbac.authorization.k8s.io/v1/" + strings.ToLower(what.Kind) + "s",
		})
	}
	return objects, nil
}
