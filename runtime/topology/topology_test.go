package topology_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/patch"
	"github.com/capstan-dev/capstan/runtime/server"
	"github.com/capstan-dev/capstan/runtime/topology"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machineTemplate has some of the fields of real templates.
type machineTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Template struct {
			Spec machineSpec `json:"spec"`
		} `json:"template"`
		Immutable string `json:"immutable,omitempty"`
	} `json:"spec"`
}

type machineSpec struct {
	Memory int64  `json:"memory,omitempty"`
	Class  string `json:"class,omitempty"`
	Disks  []disk `json:"disks,omitempty"`
}

type disk struct {
	Size int64 `json:"size"`
}

var (
	memory  = topology.Define[memorySettings]("memory", topology.Required(), topology.Description("how much memory"))
	machine = topology.Kind("example.org", "MachineTemplate")
)

type memorySettings struct {
	Size int64 `json:"size" schema:"minimum=256,maximum=65536" description:"in MiB"`
}

func setMemory(_ context.Context, template *machineTemplate, input topology.Input) error {
	value, found, err := memory.Get(input.Variables)
	if err != nil || !found {
		return err
	}
	template.Spec.Template.Spec.Memory = value.Size
	return nil
}

func item(uid, kind, holder, spec string) runtimehooksv1.GeneratePatchesRequestItem {
	return runtimehooksv1.GeneratePatchesRequestItem{
		UID: types.UID(uid), HolderReference: runtimehooksv1.HolderReference{Kind: holder, Name: "blue", FieldPath: "spec"},
		Object: runtime.RawExtension{
			Raw: fmt.Appendf(nil,
				`{"apiVersion":"example.org/v1","kind":"%s","metadata":{"name":"x"},"spec":{"template":{"spec":%s}}}`, kind, spec),
		},
	}
}

func variable(name, value string) runtimehooksv1.Variable {
	return runtimehooksv1.Variable{Name: name, Value: apiextensionsv1.JSON{Raw: []byte(value)}}
}

// Patches are matched by uid, minimal and reproducible, and templates that do not change get none (UH-01, UH-03). They
// go through the real server and client.
func TestGeneratePatches(t *testing.T) {
	extension := hooktest.Start(t, server.Handle(hook.GeneratePatches, "patches", topology.GeneratePatches(
		topology.Mutate(machine, setMemory),
		topology.Mutate(machine.ForWorkers(), func(_ context.Context, template *machineTemplate, _ topology.Input) error {
			template.Spec.Template.Spec.Class = "worker"
			return nil
		}),
	)))
	request := &runtimehooksv1.GeneratePatchesRequest{
		Variables: []runtimehooksv1.Variable{variable("memory", `{"size":512}`)},
		Items: []runtimehooksv1.GeneratePatchesRequestItem{
			item("1", "MachineTemplate", "KubeadmControlPlane", `{"unknown":{"to":"the type"}}`),
			item("2", "MachineTemplate", "MachineDeployment", `{"memory":512,"class":"worker"}`),
			item("3", "ClusterTemplate", "Cluster", `{}`),
			item("4", "MachineTemplate", "MachineDeployment", `{}`),
		},
	}
	request.Items[3].Variables = []runtimehooksv1.Variable{variable("memory", `{"size":1024}`)}
	for range 3 {
		response, err := hooktest.CallOne(t, extension, hook.GeneratePatches, "patches", request)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range response.Items {
			got = append(got, fmt.Sprint(i.UID, " ", string(i.Patch)))
		}
		want := []string{`1 {"spec":{"template":{"spec":{"memory":512}}}}`,
			`4 {"spec":{"template":{"spec":{"class":"worker","memory":1024}}}}`}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		t.Attr("rule", "UH-01")
		t.Attr("rule", "UH-03")
		t.Attr("rule", "RX-27")
		after, err := patch.Apply(request.Items[0].Object.Raw,
			runtimehooksv1.Patch{PatchType: response.Items[0].PatchType, Patch: response.Items[0].Patch})
		if err != nil || !strings.Contains(string(after), `"unknown":{"to":"the type"}`) {
			t.Errorf("%s, %v", after, err)
		}
	}
	extension.Conforms(t)
}

// A change that patches must not make is an error of the extension; it is not silently dropped (UH-02).
func TestPatchesAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		item   runtimehooksv1.GeneratePatchesRequestItem
		change func(*machineTemplate) error
		want   string
	}{
		"labels and annotations may change": {item("1", "MachineTemplate", "Cluster", `{}`), func(m *machineTemplate) error {
			m.Labels, m.Annotations = map[string]string{"a": "b"}, map[string]string{"c": "d"}
			return nil
		}, ""},
		"the name must not change": {item("1", "MachineTemplate", "Cluster", `{}`),
			func(m *machineTemplate) error { m.Name = "y"; return nil }, "UH-02"},
		"the kind must not change": {item("1", "MachineTemplate", "Cluster", `{}`),
			func(m *machineTemplate) error { m.Kind = "y"; return nil }, "UH-02"},
		"the spec outside of the template must not change": {item("1", "MachineTemplate", "Cluster", `{}`),
			func(m *machineTemplate) error {
				m.Spec.Immutable = "y"
				return nil
			}, "UH-02"},
		"a list that the type knows": {item("1", "MachineTemplate", "Cluster", `{"disks":[{"size":1}]}`),
			func(m *machineTemplate) error {
				m.Spec.Template.Spec.Disks[0].Size = 2
				return nil
			}, ""},
		"a list with fields that the type does not know": {
			item("1", "MachineTemplate", "Cluster", `{"disks":[{"size":1,"fast":true}]}`), func(m *machineTemplate) error {
				m.Spec.Template.Spec.Disks[0].Size = 2
				return nil
			}, "the list spec.template.spec.disks has fields"},
		"a list with fields that the type does not know, which does not change": {
			item("1", "MachineTemplate", "Cluster", `{"disks":[{"size":1,"fast":true}]}`),
			func(m *machineTemplate) error {
				m.Spec.Template.Spec.Memory = 2
				return nil
			},
			"",
		},
		"an error of the function": {item("1", "MachineTemplate", "Cluster", `{}`),
			func(*machineTemplate) error { return errors.New("no memory is left") }, "Cluster blue (spec): no memory is left"},
		"a template of another shape": {item("1", "MachineTemplate", "Cluster", `7`),
			func(*machineTemplate) error { return nil }, "decoding a template"},
	} {
		t.Run(name, func(t *testing.T) {
			generate := topology.GeneratePatches(topology.Mutate(machine,
				func(_ context.Context, m *machineTemplate, _ topology.Input) error { return c.change(m) }))
			response := &runtimehooksv1.GeneratePatchesResponse{}
			err := generate(t.Context(), &runtimehooksv1.GeneratePatchesRequest{
				Items: []runtimehooksv1.GeneratePatchesRequestItem{c.item},
			}, response)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %+v, %v; want an error with %q", response, err, c.want)
			}
			switch name {
			case "the name must not change", "the kind must not change",
				"the spec outside of the template must not change":
				t.Attr("rule", "UH-02")
			}
		})
	}
	if topology.GeneratePatches(topology.Mutate[machineTemplate](machine, nil)) != nil {
		t.Error("a mutation without a function was accepted")
	}
}

// A topology is rejected with everything that is wrong in it (UH-04).
func TestValidateTopology(t *testing.T) {
	extension := hooktest.Start(t, server.Handle(hook.ValidateTopology, "validate", topology.ValidateTopology(
		topology.Validate(machine, func(_ context.Context, template *machineTemplate, input topology.Input) error {
			value, _, err := memory.Get(input.Variables)
			if err != nil {
				return err
			}
			if got := template.Spec.Template.Spec.Memory; got != value.Size {
				return fmt.Errorf("memory is %d, the variable says %d", got, value.Size)
			}
			return nil
		}))))
	request := &runtimehooksv1.ValidateTopologyRequest{
		Variables: []runtimehooksv1.Variable{variable("memory", `{"size":512}`)},
	}
	for _, spec := range []string{`{"memory":512}`, `{"memory":1}`, `{}`} {
		i := item("", "MachineTemplate", "MachineDeployment", spec)
		request.Items = append(request.Items, &runtimehooksv1.ValidateTopologyRequestItem{
			HolderReference: i.HolderReference, Object: i.Object,
		})
	}
	_, err := hooktest.CallOne(t, extension, hook.ValidateTopology, "validate", request)
	want := "MachineTemplate of MachineDeployment blue: memory is 1, the variable says 512, MachineTemplate of " +
		"MachineDeployment blue: memory is 0, the variable says 512"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v", err)
	}
	request.Items = request.Items[:1]
	if _, err := hooktest.CallOne(t, extension, hook.ValidateTopology, "validate", request); err != nil {
		t.Error(err)
	}
}

type everything struct {
	Name     string            `json:"name" schema:"minLength=1,maxLength=8,pattern=^[a-z]+$"`
	Mode     string            `json:"mode,omitempty" schema:"enum=slow|fast,default=slow"`
	Count    int32             `json:"count,omitempty" schema:"default=3"`
	Unsigned uint16            `json:"unsigned,omitempty"`
	Share    float64           `json:"share,omitempty"`
	On       *bool             `json:"on,omitempty" schema:"default=true"`
	Tags     []string          `json:"tags,omitempty" schema:"minItems=1,maxItems=4"`
	Labels   map[string]string `json:"labels,omitempty"`
	Since    metav1.Time       `json:"since,omitempty"`
	Raw      []byte            `json:"raw,omitempty"`
	Any      any               `json:"any,omitempty"`
	Hidden   string            `json:"-"`
	inner
}

type inner struct {
	Memory memorySettings `json:"memory"`
}

// The schema of a variable is derived from its Go type (UH-05).
func TestDiscoverVariables(t *testing.T) {
	extension := hooktest.Start(t, server.Handle(hook.DiscoverVariables, "variables",
		topology.DiscoverVariables(topology.Define[everything]("everything"), memory)))
	response, err := hooktest.CallOne(t, extension, hook.DiscoverVariables, "variables",
		&runtimehooksv1.DiscoverVariablesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.MarshalIndent(response.Variables, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	var compact []string
	for _, v := range response.Variables {
		one, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		compact = append(compact, string(one))
	}
	want := []string{
		`{"name":"everything","required":false,"schema":{"openAPIV3Schema":{"type":"object","properties":{` +
			`"any":{"x-kubernetes-preserve-unknown-fields":true},"count":{"type":"integer","format":"int32","default":3},` +
			`"labels":{"type":"object","additionalProperties":{"type":"string"}},` +
			`"memory":{"type":"object","properties":{"size":{"description":"in MiB","type":"integer","format":"int64","maximum":65536,"minimum":256}},"required":["size"]},` +
			`"mode":{"type":"string","enum":["slow","fast"],"default":"slow"},` +
			`"name":{"type":"string","maxLength":8,"minLength":1,"pattern":"^[a-z]+$"},"on":{"type":"boolean","default":true},` +
			`"raw":{"type":"string","format":"byte"},"share":{"type":"number"},"since":{"type":"string","format":"date-time"},` +
			`"tags":{"type":"array","items":{"type":"string"},"maxItems":4,"minItems":1},"unsigned":{"type":"integer","minimum":0}},` +
			`"required":["name","memory"]}}}`,
		`{"name":"memory","required":true,"schema":{"openAPIV3Schema":{"description":"how much memory","type":"object",` +
			`"properties":{"size":{"description":"in MiB","type":"integer","format":"int64","maximum":65536,"minimum":256}},"required":["size"]}}}`,
	}
	if strings.Join(compact, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", data)
	}
	t.Attr("rule", "UH-05")
	extension.Conforms(t)
}

func TestVariablesThatCanNotBe(t *testing.T) {
	type loop struct {
		Next *loop `json:"next,omitempty"`
	}
	type channel struct {
		C chan int `json:"c"`
	}
	type unnamed struct{ A int }
	type bad struct {
		A int `json:"a" schema:"minimum=x"`
	}
	type worse struct {
		A []string `json:"a" schema:"default=x"`
	}
	type odd struct {
		A int `json:"a" schema:"most=1"`
	}
	for want, d := range map[string]topology.Definition{
		"contains itself":      topology.Define[loop]("a"),
		"can't hold a chan":    topology.Define[channel]("a"),
		"has no name in JSON":  topology.Define[unnamed]("a"),
		"a whole number":       topology.Define[bad]("a"),
		"can't have one for":   topology.Define[worse]("a"),
		"unknown part":         topology.Define[odd]("a"),
		"Cluster API's own":    topology.Define[string]("builtin"),
		"has no name":          topology.Define[string](""),
		"must not have dots":   topology.Define[string]("a.b"),
		"can't hold a complex": topology.Define[complex128]("a"),
	} {
		if _, err := topology.CheckVariables(d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
	if _, err := topology.CheckVariables(memory, memory); err == nil || !strings.Contains(err.Error(), "defined twice") {
		t.Errorf("the same variable twice: %v", err)
	}
}

func TestVariableValues(t *testing.T) {
	for name, c := range map[string]struct {
		variables []runtimehooksv1.Variable
		size      int64
		found     bool
		bad       bool
	}{
		"none":                       {nil, 0, false, false},
		"a variable of another name": {[]runtimehooksv1.Variable{variable("x", `{"size":1}`)}, 0, false, false},
		"one":                        {[]runtimehooksv1.Variable{variable("memory", `{"size":1}`)}, 1, true, false},
		"two values of the variable, of which the last is used": {
			[]runtimehooksv1.Variable{variable("memory", `{"size":1}`), variable("memory", `{"size":2}`)}, 2, true, false,
		},
		"a value of another shape":      {[]runtimehooksv1.Variable{variable("memory", `7`)}, 0, false, true},
		"a value with an invalid field": {[]runtimehooksv1.Variable{variable("memory", `{"sice":1}`)}, 0, false, true},
	} {
		value, found, err := memory.Get(c.variables)
		if value.Size != c.size || found != c.found || (err != nil) != c.bad {
			t.Errorf("%s: %+v, %t, %v", name, value, found, err)
		}
	}
	builtins, err := topology.Input{Variables: []runtimehooksv1.Variable{
		variable("builtin", `{"cluster":{"name":"blue"}}`),
		variable("builtin", `{"machineDeployment":{"version":"v1.36.3"}}`),
	}}.Builtins()
	if err != nil || builtins.Cluster.Name != "blue" || builtins.MachineDeployment.Version != "v1.36.3" {
		t.Errorf("builtins: %+v, %v", builtins, err)
	}
}
