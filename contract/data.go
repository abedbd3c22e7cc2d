package contract

import (
	"embed"
	"fmt"

	"sigs.k8s.io/yaml"
)

//go:embed data/*.yaml
var files embed.FS

// read returns the rows of a data file. It panics if the file is malformed; a test detects that before a release.
func read[Row any](name string) []Row {
	data, err := files.ReadFile("data/" + name + ".yaml")
	if err != nil {
		panic(fmt.Sprintf("contract: %v", err))
	}
	var rows []Row
	if err := yaml.UnmarshalStrict(data, &rows); err != nil {
		panic(fmt.Sprintf("contract: reading %s.yaml: %v", name, err))
	}
	return rows
}
