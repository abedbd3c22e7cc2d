package openapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/capstan-dev/capstan/runtime/schema"
)

//go:generate go run ./gen

// What the source of Cluster API's types says about them, made by go generate. Its test makes it again and compares.
//
//go:embed clusterapi.json
var clusterAPI []byte

var clusterAPITexts = sync.OnceValues(func() (*schema.Document, error) {
	texts := schema.New()
	decoder := json.NewDecoder(bytes.NewReader(clusterAPI))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(texts); err != nil {
		return nil, fmt.Errorf("reading the texts about Cluster API's types: %w", err)
	}
	return texts, nil
})
