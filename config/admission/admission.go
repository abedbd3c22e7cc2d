// Package admission embeds Capstan's ValidatingAdmissionPolicies: what hosts and tenants may write, down to fields.
// RBAC ends at the object.
package admission

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
)

//go:embed policies/*.yaml plane/*.yaml
var policies embed.FS

// Documents returns the policies of a plane and their bindings, as one YAML document each: those of directory policies
// are about Capstan's own resources, and every release has them; those of directory plane are about Cluster API's, and
// only a plane has them, where all that Cluster API does is done with Capstan. All are ready to be applied, but for the
// provider's label, which a release and the plane add.
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
