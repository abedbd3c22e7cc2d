// Package openapi generates the OpenAPI v3.0 document of a catalog of hooks (RS-09). It has one path for each hook
// with the schemas of the request and the response, enough to write an extension in any language.
//
//	document, err := openapi.JSON(hook.ClusterAPI(), openapi.Options{Version: "v1.14"})
//
// The schemas are derived from the Go types of the catalog (RS-16). For Cluster API's types, the document also
// contains what only their source has: descriptions, required fields, enumerations.
//
// Ids such as RS-09 are rules of the Runtime SDK's contract; RULES.md in the module's root explains them.
package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/schema"
)

// SpecVersion is the version of OpenAPI that documents follow.
const SpecVersion = "3.0.3"

// Options of a document. The zero value works.
type Options struct {
	// Title of the document. Default: "Runtime hooks".
	Title string
	// Version of the described API, for example "v1.14". Default: "unversioned".
	Version string
	// Server is the URL or prefix of all paths. Default: none.
	Server string
	// Texts provides descriptions of the catalog's types. Default: those of Cluster API's types.
	Texts *schema.Document
}

// Document is an OpenAPI document. The OpenAPI specification defines its fields and those of the types below.
type Document struct {
	OpenAPI    string          `json:"openapi"`
	Info       Info            `json:"info"`
	Servers    []Server        `json:"servers,omitempty"`
	Paths      map[string]Path `json:"paths"`
	Components Components      `json:"components"`
}

// Info describes a document.
type Info struct {
	Title       string `json:"title"`
	Description string `json:"description,omitempty"`
	Version     string `json:"version"`
}

// Server is the base of all paths.
type Server struct {
	URL string `json:"url"`
}

// Path holds the one operation of a hook.
type Path struct {
	Post Operation `json:"post"`
}

// Operation is a call of a hook.
type Operation struct {
	OperationID string              `json:"operationId"`
	Summary     string              `json:"summary,omitempty"`
	Description string              `json:"description,omitempty"`
	Tags        []string            `json:"tags,omitempty"`
	Deprecated  bool                `json:"deprecated,omitempty"`
	Parameters  []Parameter         `json:"parameters,omitempty"`
	RequestBody Body                `json:"requestBody"`
	Responses   map[string]Response `json:"responses"`
}

// Parameter of an operation.
type Parameter struct {
	Name        string  `json:"name"`
	In          string  `json:"in"`
	Description string  `json:"description"`
	Required    bool    `json:"required,omitempty"`
	Schema      *Schema `json:"schema"`
}

// Body is the body of a request.
type Body struct {
	Required bool             `json:"required,omitempty"`
	Content  map[string]Media `json:"content"`
}

// Response is the response of an operation.
type Response struct {
	Description string           `json:"description"`
	Content     map[string]Media `json:"content,omitempty"`
}

// Media is a body of one media type.
type Media struct {
	Schema *Schema `json:"schema"`
}

// Components holds the named schemas.
type Components struct {
	Schemas map[string]*Schema `json:"schemas"`
}

// Schema describes a value.
type Schema struct {
	Ref                  string             `json:"$ref,omitempty"`
	AllOf                []*Schema          `json:"allOf,omitempty"`
	Type                 string             `json:"type,omitempty"`
	Format               string             `json:"format,omitempty"`
	Description          string             `json:"description,omitempty"`
	Properties           map[string]*Schema `json:"properties,omitempty"`
	Required             []string           `json:"required,omitempty"`
	Items                *Schema            `json:"items,omitempty"`
	AdditionalProperties *Schema            `json:"additionalProperties,omitempty"`
	Enum                 []string           `json:"enum,omitempty"`
	IntOrString          bool               `json:"x-kubernetes-int-or-string,omitempty"`
}

// JSON returns the document of a catalog as JSON. The same catalog produces the same bytes.
func JSON(catalog *hook.Catalog, options Options) ([]byte, error) {
	document, err := Of(catalog, options)
	if err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(document, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encoding the OpenAPI document: %w", err)
	}
	return append(data, '\n'), nil
}

// Of returns the document of a catalog.
func Of(catalog *hook.Catalog, options Options) (*Document, error) {
	described, err := schema.Reflect(catalog)
	if err != nil {
		return nil, fmt.Errorf("making the OpenAPI document: %w", err)
	}
	texts := options.Texts
	if texts == nil {
		if texts, err = clusterAPITexts(); err != nil {
			return nil, fmt.Errorf("making the OpenAPI document: %w", err)
		}
	}
	described.Describe(texts)
	names, err := componentNames(described)
	if err != nil {
		return nil, fmt.Errorf("making the OpenAPI document: %w", err)
	}
	w := writer{names: names}
	document := &Document{
		OpenAPI: SpecVersion,
		Info: Info{
			Title: orElse(options.Title, "Runtime hooks"), Version: orElse(options.Version, "unversioned"), Description: about,
		},
		Paths:      map[string]Path{},
		Components: Components{Schemas: map[string]*Schema{}},
	}
	if options.Server != "" {
		document.Servers = []Server{{URL: options.Server}}
	}
	for _, d := range catalog.All() {
		document.Paths[pathOf(d)] = Path{Post: w.operation(d, catalog.Facts(d.ID), described.Hooks[d.ID.String()])}
	}
	for name, t := range described.Types {
		document.Components.Schemas[names[name]] = w.schema(t)
	}
	addAvailability(document)
	return document, nil
}

// addAvailability adds the field that responses of in-place updates have since Cluster API v1.15, if the types lack
// it.
func addAvailability(document *Document) {
	for _, name := range []string{"CanUpdateMachineResponse", "CanUpdateMachineSetResponse"} {
		s := document.Components.Schemas["sigs.k8s.io.cluster-api.api.runtime.hooks.v1alpha1."+name]
		if s != nil && s.Properties["affectsAvailability"] == nil {
			s.Properties["affectsAvailability"] = &Schema{Type: "boolean",
				Description: "affectsAvailability reports whether the " +
					"update in place may make the machine unavailable; absent means that it may. Cluster API " +
					"reads it as of v1.15."}
		}
	}
}

// pathOf returns the path of a hook in the document.
func pathOf(d *hook.Descriptor) string {
	path := d.ID.Path("")
	if d.HasSettings { // all but Discovery have named handlers
		path += "/{name}"
	}
	return path
}

const about = "Each operation is served by a runtime extension and called over HTTPS. Whatever a handler decides, " +
	"including a failure, is an answer with HTTP status 200; other codes count as a call that failed. Bodies have at " +
	"most 20 MiB. Names in paths are in lower case."

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

type writer struct{ names map[string]string }

func (w writer) operation(d *hook.Descriptor, facts hook.Facts, h *schema.Hook) Operation {
	operation := Operation{
		OperationID: operationID(d.ID),
		Summary:     facts.Summary,
		Description: facts.Description,
		Tags:        facts.Tags,
		Deprecated:  facts.IsDeprecated(),
		RequestBody: Body{Required: true, Content: media(w.ref(h.Request))},
		Responses: map[string]Response{
			"200": {Description: "the answer, with status Success or Failure", Content: media(w.ref(h.Response))},
		},
	}
	if advice := facts.Advice(); advice != "" {
		operation.Description = strings.TrimSpace(operation.Description + "\n\nThis version is " + advice + ".")
	}
	if d.HasSettings {
		operation.Parameters = []Parameter{
			{Name: "name", In: "path", Required: true, Description: "name of the handler, as Discovery returns it",
				Schema: &Schema{Type: "string"}},
			{Name: "timeout", In: "query", Description: "how long the caller waits, for example 10s",
				Schema: &Schema{Type: "string"}},
		}
	}
	return operation
}

// operationID returns an ID that is unique in the document, which may contain several versions of a hook.
func operationID(id hook.ID) string {
	return strings.NewReplacer(".", "_", "-", "_", "/", "_").Replace(id.String())
}

func media(s *Schema) map[string]Media { return map[string]Media{"application/json": {Schema: s}} }

func (w writer) ref(name string) *Schema {
	return &Schema{Ref: "#/components/schemas/" + w.names[name]}
}

func (w writer) schema(t *schema.Type) *Schema {
	if t == nil {
		return &Schema{}
	}
	if t.Ref != "" {
		if t.Description == "" {
			return w.ref(t.Ref)
		}
		return &Schema{AllOf: []*Schema{w.ref(t.Ref)}, Description: t.Description} // a $ref stands alone
	}
	s := &Schema{Description: t.Description, Format: t.Format, Enum: t.Enum}
	switch t.Kind {
	case schema.Any:
	case schema.Map:
		s.Type, s.AdditionalProperties = "object", w.schema(t.Items)
	case schema.Array:
		s.Type, s.Items = "array", w.schema(t.Items)
	case schema.Object:
		s.Type, s.Properties = "object", map[string]*Schema{}
		for _, name := range t.FieldNames() {
			field := t.Fields[name]
			s.Properties[name] = w.schema(&field.Type)
			if field.Required {
				s.Required = append(s.Required, name)
			}
		}
	default:
		s.Type = string(t.Kind)
	}
	if t.Format == "int-or-string" {
		s.Type, s.IntOrString = "", true
	}
	return s
}

// componentNames assigns each type a name that OpenAPI allows.
func componentNames(d *schema.Document) (map[string]string, error) {
	names, taken := map[string]string{}, map[string]string{}
	for _, full := range slices.Sorted(maps.Keys(d.Types)) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == '/':
				return '.'
			case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
				return r
			}
			return '_'
		}, full)
		if other, ok := taken[name]; ok {
			return nil, fmt.Errorf("types %s and %s have the same name in the document: rename one", other, full)
		}
		names[full], taken[name] = name, full
	}
	return names, nil
}
