// Package texts reads what package openapi needs from Cluster API's source: the types' descriptions, required fields
// and enumerations.
package texts

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/capstan-dev/capstan/runtime/schema"
)

// Module is the path of the module with Cluster API's types.
const Module = "sigs.k8s.io/cluster-api/api"

// Hooks is the import path of the package with its hooks.
const Hooks = Module + "/runtime/hooks/v1alpha1"

// Read returns, as JSON, what package openapi needs from one release. Types of other modules are omitted, because they
// are described where they are published.
func Read(ctx context.Context, version string) ([]byte, error) {
	module, err := schema.OpenModule(ctx, Module+"@"+version)
	if err != nil {
		return nil, err
	}
	source := &schema.Source{Locate: module.Locate}
	described, err := source.Read(ctx, Hooks)
	if err != nil {
		return nil, err
	}
	if missing := source.Missing(); len(missing) > 0 {
		return nil, fmt.Errorf("reading Cluster API's types: packages are missing: %s", strings.Join(missing, "; "))
	}
	kept := schema.New()
	for name, t := range described.Types {
		if strings.HasPrefix(name, Module+"/") {
			kept.Types[name] = t
		}
	}
	data, err := json.MarshalIndent(kept, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encoding Cluster API's texts: %w", err)
	}
	return append(data, '\n'), nil
}
