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

// One document for all hooks, which other tools can read (RS-09, RS-16), with the schemas of both bodies (RS-10).
func TestEveryHookIsInTheDocument(t *testing.T) {
	text, err := openapi.JSON(hook.ClusterAPI(), openapi.Options{Version: "v1.14", Server: "/extensions"})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := openapi.JSON(hook.ClusterAPI(),
		openapi.Options{Version: "v1.14", Server: "/extensions"}); err != nil || !bytes.Equal(text, again) {
		t.Errorf("the same catalog produced a different document, %v", err)
	}
	t.Attr("rule", "RS-16")
	read := &spec3.OpenAPI{} // the library with which Kubernetes reads such documents
	if err := json.Unmarshal(text, read); err != nil {
		t.Fatal(err)
	}
	if read.Version != openapi.SpecVersion || !strings.HasPrefix(read.Version, "3.0.") || read.Info.Version != "v1.14" ||
		read.Servers[0].URL != "/extensions" {
		t.Errorf("version %s, info %+v, servers %+v", read.Version, read.Info, read.Servers)
	}
	t.Attr("rule", "RS-09")
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
			t.Attr("rule", "RS-10")
		}
	}
}

// Every reference can be resolved.
func TestReferences(t *testing.T) {
	document := clusterAPI(t)
	var walk func(path string, s *openapi.Schema)
	walk = func(path string, s *openapi.Schema) {
		if s == nil {
			return
		}
		if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); s.Ref != "" &&
			(!ok || document.Components.Schemas[name] == nil) {
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

// Requests as Cluster API sends them, and answers, match the document (RX-03).
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
		request.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{
			Group: d.ID.Group, Version: d.ID.Version, Kind: d.RequestKind,
		})
		response := d.NewResponse()
		response.SetStatus(runtimehooksv1.ResponseStatusSuccess)
		for what, c := range map[string]struct {
			object any
			fit    func(*hook.Descriptor, []byte) ([]openapi.Misfit, error)
		}{
			"the request": {request, document.RequestMisfits}, "the answer": {response, document.ResponseMisfits},
		} {
			data, err := json.Marshal(c.object)
			if err != nil {
				t.Fatal(err)
			}
			misfits, err := c.fit(d, data)
			if err != nil {
				t.Fatal(err)
			}
			for _, misfit := range misfits {
				t.Errorf("%s of hook %s: %s", what, d.ID, misfit)
			}
		}
	}
}

// Whatever does not match is found, with its path (RX-03).
func TestMisfits(t *testing.T) {
	document := clusterAPI(t)
	for name, c := range map[string]struct {
		of   *hook.Descriptor
		body string
		want string
	}{
		"all is well": {hook.BeforeClusterCreate.Descriptor(), `{"kind":"x","status":"Success","retryAfterSeconds":0}`, ""},
		"a field that is missing": {
			hook.BeforeClusterCreate.Descriptor(), `{"retryAfterSeconds":0}`, "status is missing",
		},
		"a text that is not allowed": {
			hook.BeforeClusterCreate.Descriptor(), `{"status":"Maybe","retryAfterSeconds":0}`,
			`status is "Maybe", not one of Failure, Success`,
		},
		"a text for a number": {
			hook.BeforeClusterCreate.Descriptor(), `{"status":"Success","retryAfterSeconds":"5"}`,
			"retryAfterSeconds is a string, not a value of type integer",
		},
		"a fraction for a whole number": {
			hook.BeforeClusterCreate.Descriptor(), `{"status":"Success","retryAfterSeconds":1.5}`,
			"retryAfterSeconds is the number 1.5, not a value of type integer",
		},
		"a number for a text": {
			hook.BeforeClusterCreate.Descriptor(), `{"status":"Success","message":7,"retryAfterSeconds":0}`,
			"message is the number 7, not a value of type string",
		},
		"a boolean for a text": {
			hook.BeforeClusterCreate.Descriptor(), `{"status":"Success","message":true,"retryAfterSeconds":0}`,
			"message is a boolean, not a value of type string",
		},
		"null for what is optional": {
			hook.BeforeClusterCreate.Descriptor(), `{"status":"Success","message":null,"retryAfterSeconds":0}`, "",
		},
		"null for what is required": {
			hook.BeforeClusterCreate.Descriptor(), `{"status":null,"retryAfterSeconds":0}`,
			"status is null, not a value of type string",
		},
		"a field that is not described": {
			hook.BeforeClusterCreate.Descriptor(), `{"status":"Success","retryAfterSeconds":0,"more":1}`,
			"more is not described",
		},
		"a number for a text, deep in a list": {
			hook.Discovery.Descriptor(),
			`{"status":"Success","handlers":[{"name":7,"requestHook":{"apiVersion":"a/b","hook":"c"}}]}`,
			"handlers[0].name is the number 7, not a value of type string",
		},
		"an object for a list": {
			hook.Discovery.Descriptor(), `{"status":"Success","handlers":{}}`,
			"handlers is an object, not a value of type array",
		},
		"a list for an object": {hook.Discovery.Descriptor(), `[]`, "the body is a list, not a value of type object"},
	} {
		t.Run(name, func(t *testing.T) {
			misfits, err := document.ResponseMisfits(c.of, []byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, misfit := range misfits {
				got = append(got, misfit.String())
			}
			if strings.Join(got, "; ") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	other := hook.Define[ping, pong](schema.GroupVersion{Group: "hooks.example.org", Version: "v1"}, "BeforePowerOff")
	if _, err := document.ResponseMisfits(other.Descriptor(), []byte(`{}`)); err == nil ||
		!strings.Contains(err.Error(), "does not describe") {
		t.Errorf("a hook that the document does not have: %v", err)
	}
	if _, err := document.RequestMisfits(hook.Discovery.Descriptor(), []byte(`{`)); err == nil {
		t.Error("an incomplete body was accepted")
	}
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
	catalog, err := hook.NewCatalog(newest, hook.Serves(newest, older, func(*ping, *ping) error { return nil },
		func(*pong, *pong) error { return nil }),
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
	t.Attr("rule", "RC-22")
	if current := document.Paths["/hooks.example.org/v1/beforepoweroff/{name}"].Post; current.Deprecated ||
		current.OperationID == old.OperationID {
		t.Errorf("the newest version is %+v", current)
	}
	t.Attr("rule", "RS-08")
	request := document.Components.Schemas["github.com.capstan-dev.capstan.runtime.openapi_test.ping"]
	if request == nil || !slices.Equal(request.Required, []string{"text"}) {
		t.Errorf("the request is %+v", request)
	}
}

// The committed texts are those of the release that we are built with; otherwise run go generate (RS-16).
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
	t.Attr("rule", "RS-16")
}
