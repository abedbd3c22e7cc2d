// Package admission embeds Capstan's ValidatingAdmissionPolicies: they restrict what hosts and tenants may write, down
// to single fields, whereas RBAC knows only whole objects.
package admission

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
)

//go:embed policies/*.yaml plane/*.yaml
var policies embed.FS

// Documents returns the policies of a plane and their bindings, each as one YAML document. The policies in the
// directory policies are about Capstan's own resources; every release has them, too. Those in the directory plane are
// about Cluster API's resources; only a plane has them, because a release must not restrict these resources in the
// management clusters of others. The documents can be applied as they are, except that a release and the plane add the
// provider's label.
func Documents() ([][]byte, error) {
	names, err := fs.Glob(policies, "*/*.yaml")
	if err != nil {
		return nil, err
	}
	var documents [][]byte
	for _, name := range names {
		data, err := policies.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading the admission policies: %w", err)
		}
		documents = append(documents, bytes.Split(data, []byte("\n---\n"))...)
	}
	return documents, nil
}
