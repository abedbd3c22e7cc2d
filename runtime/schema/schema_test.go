package schema_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/schema"
)

// ping and pong have everything that types of hooks can have.
type ping struct {
	metav1.TypeMeta              `json:",inline"`
	runtimehooksv1.CommonRequest `json:",inline"`

	Text   string               `json:"text"`
	When   metav1.Time          `json:"when,omitempty"`
	Next   *ping                `json:"next,omitempty"`
	Raw    runtime.RawExtension `json:"raw,omitempty"`
	Bytes  []byte               `json:"bytes,omitempty"`
	Counts map[string]int32     `json:"counts,omitempty"`
	Inner  struct {
		Share float64 `json:"share"`
	} `json:"inner"`
	Hidden string `json:"-"`
}

func (p *ping) DeepCopyObject() runtime.Object { clone := *p; return &clone }

type pong struct {
	metav1.TypeMeta                    `json:",inline"`
	runtimehooksv1.CommonRetryResponse `json:",inline"`
}

func (p *pong) DeepCopyObject() runtime.Object { clone := *p; return &clone }

var beforePowerOff = hook.Define[ping, pong](kschema.GroupVersion{Group: "hooks.example.org", Version: "v1"},
	"BeforePowerOff")

func TestReflect(t *testing.T) {
	catalog, err := hook.NewCatalog(beforePowerOff,
		hook.About(beforePowerOff, hook.Facts{Summary: "before a host is powered off"}))
	if err != nil {
		t.Fatal(err)
	}
	d, err := schema.Reflect(catalog)
	if err != nil {
		t.Fatal(err)
	}
	h := d.Hooks["hooks.example.org/v1/BeforePowerOff"]
	if h == nil || !h.Blocking || h.Description != "before a host is powered off" {
		t.Fatalf("hook is %+v", h)
	}
	got := d.Types[h.Request]
	for name, want := range map[string]schema.Field{
		"kind":     {Type: schema.Type{Kind: schema.String}},
		"settings": {Type: schema.Type{Kind: schema.Map, Items: &schema.Type{Kind: schema.String}}},
		"text":     {Type: schema.Type{Kind: schema.String}, Required: true},
		"when":     {Type: schema.Type{Kind: schema.String, Format: "date-time"}},
		"next":     {Type: schema.Type{Ref: h.Request}},
		"raw":      {Type: schema.Type{Kind: schema.Any}},
		"bytes":    {Type: schema.Type{Kind: schema.String, Format: "byte"}},
		"counts":   {Type: schema.Type{Kind: schema.Map, Items: &schema.Type{Kind: schema.Integer, Format: "int32"}}},
	} {
		one, _ := json.Marshal(got.Fields[name])
		other, _ := json.Marshal(want)
		if string(one) != string(other) {
			t.Errorf("field %s is %s, want %s", name, one, other)
		}
	}
	if share := got.Fields["inner"].Fields["share"]; share == nil || share.Kind != schema.Number {
		t.Errorf("an inner field is %+v", share)
	}
	if got.Fields["Hidden"] != nil || got.Fields["-"] != nil {
		t.Error("a field that is never sent is described")
	}
}

// Both ways to describe the release that we are built with must agree, except for what only the source has. Cluster
// API has a directory with a group version for each version of its hooks, and plain types in it.
func TestSourceAgreesWithReflection(t *testing.T) {
	const module = "sigs.k8s.io/cluster-api/api"
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	m, err := schema.OpenModule(ctx, module+"@"+version(t, module))
	if err != nil {
		t.Fatal(err)
	}
	source := &schema.Source{Locate: m.Locate}
	read, err := source.Read(ctx, module+"/runtime/hooks/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	if missing := source.Missing(); len(missing) > 0 {
		t.Errorf("packages are missing: %s", missing)
	}
	reflected, err := schema.Reflect(hook.ClusterAPI())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := read.HookNames(), reflected.HookNames(); !slices.Equal(got, want) {
		t.Errorf("the source has the hooks %s, reflection has %s", got, want)
	}
	t.Attr("rule", "RS-14")
	for _, name := range reflected.HookNames() {
		if got, want := read.Hooks[name], reflected.Hooks[name]; got == nil || got.Request != want.Request ||
			got.Response != want.Response || got.Blocking != want.Blocking {
			t.Errorf("hook %s: %+v, reflection has %+v", name, got, want)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(reflected.Types)) {
		got, want := read.Types[name], reflected.Types[name]
		if got == nil {
			t.Errorf("type %s is missing", name)
			continue
		}
		if !slices.Equal(got.FieldNames(), want.FieldNames()) {
			t.Errorf("type %s has the fields %s, reflection has %s", name, got.FieldNames(), want.FieldNames())
			continue
		}
		for _, field := range want.FieldNames() {
			if one, other := shape(&got.Fields[field].Type), shape(&want.Fields[field].Type); one != other {
				t.Errorf("%s.%s is %s, reflection has %s", name, field, one, other)
			}
		}
	}
	item := read.Types[module+"/runtime/hooks/v1alpha1.GeneratePatchesResponseItem"]
	if got := item.Fields["patchType"].Enum; !slices.Equal(got, []string{"JSONMergePatch", "JSONPatch"}) {
		t.Errorf("the values of patchType are %s", got)
	}
	response := read.Types[module+"/runtime/hooks/v1alpha1.BeforeClusterCreateResponse"]
	if got := response.Fields["status"]; !slices.Equal(got.Enum, []string{"Failure", "Success"}) || !got.Required ||
		got.Description == "" {
		t.Errorf("the field status is %+v", got)
	}
}

// shape returns a type as text, without what only the source has.
func shape(t *schema.Type) string {
	text := string(t.Kind) + t.Ref + t.Format
	if t.Items != nil {
		text += "[" + shape(t.Items) + "]"
	}
	for _, name := range t.FieldNames() {
		text += "{" + name + shape(&t.Fields[name].Type) + "}"
	}
	return text
}

// version returns the version of a module that we are built with.
func version(t *testing.T, module string) string {
	t.Helper()
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(mod), "\n") {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == module {
			return fields[1]
		}
	}
	t.Fatalf("go.mod does not require %s", module)
	return ""
}

// A provider's own hooks are found where they are defined, and so are their types in neighbouring packages.
func TestSourceOfAProvider(t *testing.T) {
	directory := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.org/provider\n\ngo 1.26\n",
		"hooks/hooks.go": `package hooks

import (
	"example.org/gone/away"
	"example.org/provider/shared"
	"github.com/capstan-dev/capstan/runtime/hook"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const group = "hooks.example.org"

var groupVersion = schema.GroupVersion{Group: group, Version: "v1"}

// BeforePowerOff is called before a host is powered off.
var BeforePowerOff = hook.Define[Request, Response](groupVersion, "BeforePowerOff")

// BeforePowerOffBeta is the version before.
var BeforePowerOffBeta = hook.Define[Request, Response](schema.GroupVersion{Group: group, Version: "v1beta1"}, "BeforePowerOff")

var catalog, err = hook.NewCatalog(BeforePowerOff, hook.About(BeforePowerOffBeta, hook.Facts{
	Deprecated: "v1.10", DeprecatedOn: time.Date(2026, time.November, 21, 0, 0, 0, 0, time.UTC), ReplacedBy: "v1",
}))

type Request struct {
	// Host is the host.
	// +required
	Host *shared.Host ` + "`json:\"host,omitempty\"`" + `
	Gone away.Type
	Also, Both string
	private string
}

type Response struct {
	RetryAfterSeconds int32 ` + "`json:\"retryAfterSeconds\"`" + `
}
`,
		"shared/shared.go": "package shared\n\n// Mode says how.\n// +kubebuilder:validation:Enum=Soft;Hard\n" +
			"type Mode string\n\ntype Host struct {\n\tName string `json:\"name\"`\n" +
			"\tModes []Mode `json:\"modes,omitempty\"`\n}\n",
		"none/none.go": "package none\n",
		"bad/bad.go":   "package bad\n\nfunc {\n",
	} {
		path := filepath.Join(directory, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	m, err := schema.OpenModule(t.Context(), directory)
	if err != nil {
		t.Fatal(err)
	}
	source := &schema.Source{Locate: m.Locate}
	d, err := source.Read(t.Context(), "example.org/provider/hooks")
	if err != nil {
		t.Fatal(err)
	}
	h := d.Hooks["hooks.example.org/v1/BeforePowerOff"]
	if h == nil || !h.Blocking || h.Description != "BeforePowerOff is called before a host is powered off." {
		t.Fatalf("hook is %+v", h)
	}
	if beta := d.Hooks["hooks.example.org/v1beta1/BeforePowerOff"]; beta == nil || beta.Deprecated != "v1.10" ||
		beta.DeprecatedOn != "2026-11-21" || h.Deprecated != "" {
		t.Errorf("the older version is %+v", beta)
	}
	request := d.Types[h.Request]
	if got := request.FieldNames(); !slices.Equal(got, []string{"Also", "Both", "Gone", "host"}) {
		t.Errorf("fields are %s", got)
	}
	if host := request.Fields["host"]; !host.Required || host.Ref != "example.org/provider/shared.Host" ||
		host.Description != "Host is the host." {
		t.Errorf("host is %+v", host)
	}
	if modes := d.Types["example.org/provider/shared.Host"].Fields["modes"]; modes.Required ||
		!slices.Equal(modes.Items.Enum, []string{"Hard", "Soft"}) {
		t.Errorf("modes are %+v", modes)
	}
	if missing := source.Missing(); len(missing) != 1 || !strings.HasPrefix(missing[0], "example.org/gone/away: ") {
		t.Errorf("missing are %s", missing)
	}
	for pkg, want := range map[string]string{
		"example.org/provider/none": "it declares no hooks", "example.org/provider/bad": "expected",
		"example.org/provider/gone": "not in the module",
		"example.org/other":         "not in the module",
	} {
		if _, err := source.Read(t.Context(), pkg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want one with %q", pkg, err, want)
		}
	}
}

func TestModulesThatCanNotBe(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "none"), "-x@v1.0.0", "../up@v1.0.0",
		"example.org/x y@v1.0.0"} {
		if _, err := schema.OpenModule(t.Context(), name); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestCheckFindsLooseEnds(t *testing.T) {
	d := schema.New()
	d.Hooks["g/v1/H"] = &schema.Hook{Request: "a.B"}
	if err := d.Check(); err == nil {
		t.Error("a hook without types was accepted")
	}
	d = schema.New()
	d.Types["a.B"] = &schema.Type{
		Kind: schema.Object, Fields: map[string]*schema.Field{"x": {Type: schema.Type{Items: &schema.Type{Ref: "a.C"}}}},
	}
	if err := d.Check(); err == nil {
		t.Error("a reference to a missing type was accepted")
	}
	d.Types["a.C"] = &schema.Type{Ref: "a.C"}
	if got := d.Resolve(d.Types["a.C"]); got.Kind != schema.Any {
		t.Errorf("a type that refers to itself resolves to %+v", got)
	}
}
