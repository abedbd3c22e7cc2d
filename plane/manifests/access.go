package manifests

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/config/extension"
	"github.com/capstan-dev/capstan/config/rbac"
)

//go:embed access.yaml
var access string

// Access returns the roles of the plane's processes, and their bindings.
func Access() ([]Object, error) {
	documents := strings.Split(access, "\n---\n")
	for _, document := range strings.Split(extension.Roles, "\n---\n") {
		// Take only the ClusterRole. The extension's ServiceAccount and binding are for a Pod. In the plane, the
		// extension is a process with a certificate, and access.yaml binds the ClusterRole to the certificate's user.
		if strings.Contains(document, "\nkind: ClusterRole\n") {
			documents = append(documents, document)
		}
	}
	documents = append(documents, strings.Split(rbac.People, "\n---\n")...)
	var objects []Object
	for _, document := range documents {
		object, err := parse(document, "/apis/rbac.authorization.k8s.io/v1/")
		if err != nil {
			return nil, fmt.Errorf("reading the roles: %w", err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

//go:embed priority.yaml
var priority string

// Priority returns the objects that keep requests of hosts from monopolizing the API server.
func Priority() ([]Object, error) {
	var objects []Object
	for _, document := range strings.Split(priority, "\n---\n") {
		object, err := parse(document, "/apis/flowcontrol.apiserver.k8s.io/v1/")
		if err != nil {
			return nil, fmt.Errorf("reading the priorities of requests: %w", err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// parse parses the object in a YAML document; group is the path of its API group.
func parse(document, group string) (Object, error) {
	data, err := yaml.YAMLToJSON([]byte(document))
	if err != nil {
		return Object{}, err
	}
	var what head
	if err := json.Unmarshal(data, &what); err != nil {
		return Object{}, err
	}
	return Object{
		Kind: what.Kind, Name: what.Metadata.Name, JSON: data, Collection: group + strings.ToLower(what.Kind) + "s",
	}, nil
}
