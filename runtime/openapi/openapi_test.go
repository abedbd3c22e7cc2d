package openapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/spec3"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/openapi"
	"github.com/capstan-dev/capstan/runtime/openapi/texts"
	"github.com/capstan-dev/capstan/runtime/sample"
)

func clusterAPI(t *testing.T) *openapi.Document {
	t.Helper()
	document, err := openapi.Of(hook.ClusterAPI(), openapi.Options{Version: "v1.14"})
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// One document for all hooks, which others can read (RS-09, RS-16), with the schemas of both bodies (RS-10).
func TestEveryHookIsInTheDocument(t *testing.T) {
	text, err := openapi.JSON(hook.ClusterAPI(), openapi.Options{Version: "v1.14", Server: "/extensions"})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := openapi.JSON(hook.ClusterAPI(), openapi.Options{Version: "v1.14", Server: "/extensions"}); err != nil || !bytes.Equal(text, again) {
		t.Errorf("the same catalog gives another text, %v", err)
	}
	read := &spec3.OpenAPI{} // the library that Kubernetes reads such documents with
	if err := json.Unmarshal(text, read); err != nil {
		t.Fatal(err)
	}
	if read.Version != openapi.SpecVersion || !strings.HasPrefix(read.Version, "3.0.") || read.Info.Version != "v1.14" || read.Servers[0].URL != "/extensions" {
		t.Errorf("version %s, info %+v, servers %+v", read.Version, read.Info, read.Servers)
	}
	for _, d := range hook.ClusterAPI().All() {
		path := d.ID.Path("")
		if d.HasSettings {
			path += "/{name}"
		}
		operation := read.Paths.Paths[path]
		if operation == nil || operation.Post == nil || operation.Post.Summary == "" {
			t.Errorf("hook %s has no operation at %s", d.ID, path)
			continue
		}
		for what, ref := range map[string]string{
			d.RequestKind:  operation.Post.RequestBody.Content["application/json"].Schema.Ref.String(),
			d.ResponseKind: operation.Post.Responses.StatusCodeResponses[200].Content["application/json"].Schema.Ref.String(),
		} {
			name := strings.TrimPrefix(ref, "#/components/schemas/")
			if !strings.HasSuffix(name, "."+what) || read.Components.Schemas[name] == nil {
				t.Errorf("hook %s: %s is described by %q", d.ID, what, ref)
			}
		}
	}
}

// No reference leads nowhere.
func TestReferences(t *testing.T) {
	document := clusterAPI(t)
	var walk func(path string, s *openapi.Schema)
	walk = func(path string, s *openapi.Schema) {
		if s == nil {
			return
		}
		if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); s.Ref != "" && (!ok || document.Components.Schemas[name] == nil) {
			t.Errorf("%s refers to %s", path, s.Ref)
		}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			walk(path+"."+name, s.Properties[name])
		}
		for _, one := range append(s.AllOf, s.Items, s.AdditionalProperties) {
			walk(path, one)
		}
	}
	for name, s := range document.Components.Schemas {
		walk(name, s)
	}
}

// Requests as Cluster API sends them, and answers, fit the document (RX-03).
func TestSamplesFitTheDocument(t *testing.T) {
	document := clusterAPI(t)
	for _, d := range hook.ClusterAPI().All() {
		if !d.HasSettings {
			continue
		}
		request, err := sample.Request(d, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Group: d.ID.Group, Version: d.ID.Version, Kind: d.RequestKind})
		response := d.NewResponse()
		response.SetStatus(runtimehooksv1.ResponseStatusSuccess)
		operation := document.Paths[d.ID.Path("")+"/{name}"].Post
		for what, object := range map[*openapi.Schema]any{
			operation.RequestBody.Content["application/json"].Schema:      request,
			operation.Responses["200"].Content["application/json"].Schema: response,
		} {
			data, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			var value any
			if err := json.Unmarshal(data, &value); err != nil {
				t.Fatal(err)
			}
			for _, problem := range fit(document, what, value, d.ID.Name) {
				t.Error(problem)
			}
		}
	}
}

// fit says where a value does not fit a schema.
func fit(document *openapi.Document, s *openapi.Schema, value any, path string) []string {
	switch {
	case s.Ref != "":
		return fit(document, document.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")], value, path)
	case len(s.AllOf) > 0:
		return fit(document, s.AllOf[0], value, path)
	}
	var problems []string
	switch v := value.(type) {
	case map[string]any:
		if s.Type != "object" && s.Type != "" {
			return []string{path + " is an object, not a " + s.Type}
		}
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				problems = append(problems, path+"."+name+" is missing")
			}
		}
		for name, member := range v {
			switch {
			case s.Properties[name] != nil:
				problems = append(problems, fit(document, s.Properties[name], member, path+"."+name)...)
			case s.AdditionalProperties != nil:
				problems = append(problems, fit(document, s.AdditionalProperties, member, path+"."+name)...)
			case s.Type == "object":
				problems = append(problems, path+"."+name+" is not described")
			}
		}
	case []any:
		if s.Type != "array" {
			return []string{path + " is a list, not a " + s.Type}
		}
		for _, item := range v {
			problems = append(problems, fit(document, s.Items, item, path+"[]")...)
		}
	case string:
		if s.Type != "string" && s.Type != "" || len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
			return []string{path + " is the text " + v + ", not a " + s.Type}
		}
	}
	return problems
}

type ping struct {
	metav1.TypeMeta              `json:",inline"`
	runtimehooksv1.CommonRequest `json:",inline"`
	Text                         string `json:"text"`
}

func (p *ping) DeepCopyObject() runtime.Object { clone := *p; return &clone }

type pong struct {
	metav1.TypeMeta               `json:",inline"`
	runtimehooksv1.CommonResponse `json:",inline"`
}

func (p *pong) DeepCopyObject() runtime.Object { clone := *p; return &clone }

// A provider's own hooks, in two versions of which one is deprecated (RS-08, RC-22).
func TestOwnHooks(t *testing.T) {
	define := func(version string) hook.Hook[ping, pong] {
		return hook.Define[ping, pong](schema.GroupVersion{Group: "hooks.example.org", Version: version}, "BeforePowerOff")
	}
	newest, older := define("v1"), define("v1beta1")
	catalog, err := hook.NewCatalog(newest, hook.Serves(newest, older, func(*ping, *ping) error { return nil }, func(*pong, *pong) error { return nil }),
		hook.About(older, hook.Facts{Deprecated: "v1.10", ReplacedBy: "v1", Description: "Powers off."}))
	if err != nil {
		t.Fatal(err)
	}
	document, err := openapi.Of(catalog, openapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	old := document.Paths["/hooks.example.org/v1beta1/beforepoweroff/{name}"].Post
	if !old.Deprecated || old.Description != "Powers off.\n\nThis version is deprecated since v1.10; use v1." {
		t.Errorf("the older version is %+v", old)
	}
	if current := document.Paths["/hooks.example.org/v1/beforepoweroff/{name}"].Post; current.Deprecated || current.OperationID == old.OperationID {
		t.Errorf("the newest version is %+v", current)
	}
	request := document.Components.Schemas["github.com.capstan-dev.capstan.runtime.openapi_test.ping"]
	if request == nil || !slices.Equal(request.Required, []string{"text"}) {
		t.Errorf("the request is %+v", request)
	}
}

// The committed texts are those of the release that we are built with: run go generate otherwise (RS-16).
func TestTextsAreUpToDate(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := ""
	for line := range strings.SplitSeq(string(mod), "\n") {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == texts.Module {
			version = fields[1]
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	want, err := texts.Read(ctx, version)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("clusterapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("clusterapi.json is not what the source says: run go generate ./openapi in runtime/")
	}
}
