package inplace_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/inplace"
	"github.com/capstan-dev/capstan/runtime/patch"
	"github.com/capstan-dev/capstan/runtime/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var sampleMachine = inplace.Kind{Group: "infrastructure.cluster.x-k8s.io", Name: "SampleMachine"}

// machineSpec has some fields of the infrastructure's spec.
type machineSpec struct {
	Memory int      `json:"memory,omitempty"`
	Disks  []disk   `json:"disks,omitempty"`
	Net    *network `json:"net,omitempty"`
}

type disk struct {
	Size int `json:"size,omitempty"`
}

type network struct {
	MTU  int    `json:"mtu,omitempty"`
	Name string `json:"name,omitempty"`
}

func object(group, kind, spec string) runtime.RawExtension {
	return runtime.RawExtension{
		Raw: fmt.Appendf(nil, `{"apiVersion":"%s.cluster.x-k8s.io/v1beta2","kind":"%s","metadata":{"name":"x"},"spec":%s}`,
			group, kind, spec),
	}
}

func machine(version string) clusterv1.Machine {
	m := clusterv1.Machine{Spec: clusterv1.MachineSpec{ClusterName: "blue", Version: version}}
	m.APIVersion, m.Kind, m.Name = clusterv1.GroupVersion.String(), "Machine", "blue-0"
	return m
}

// ask asks about a change of a Machine, and about the same change of a MachineSet. Both must get the same answer.
func ask(t *testing.T, e *hooktest.Extension,
	versions, infrastructure, bootstrap [2]string) (machinePatch, infrastructurePatch, bootstrapPatch string, err error) {
	t.Helper()
	one := func(i int) runtimehooksv1.CanUpdateMachineRequestObjects {
		return runtimehooksv1.CanUpdateMachineRequestObjects{
			Machine: machine(versions[i]), InfrastructureMachine: object("infrastructure", "SampleMachine", infrastructure[i]),
			BootstrapConfig: object("bootstrap", "KubeadmConfig", bootstrap[i]),
		}
	}
	set := func(i int) runtimehooksv1.CanUpdateMachineSetRequestObjects {
		s := clusterv1.MachineSet{
			Spec: clusterv1.MachineSetSpec{
				ClusterName: "blue", Template: clusterv1.MachineTemplateSpec{Spec: machine(versions[i]).Spec},
			},
		}
		s.APIVersion, s.Kind, s.Name = clusterv1.GroupVersion.String(), "MachineSet", "blue"
		return runtimehooksv1.CanUpdateMachineSetRequestObjects{
			MachineSet: s,
			InfrastructureMachineTemplate: object("infrastructure", "SampleMachineTemplate",
				`{"template":{"spec":`+infrastructure[i]+`}}`),
			BootstrapConfigTemplate: object("bootstrap", "KubeadmConfigTemplate", `{"template":{"spec":`+bootstrap[i]+`}}`),
		}
	}
	ofMachine, err := hooktest.CallOne(t, e, hook.CanUpdateMachine, "sample-can-machine",
		&runtimehooksv1.CanUpdateMachineRequest{Current: one(0), Desired: one(1)})
	ofSet, setErr := hooktest.CallOne(t, e, hook.CanUpdateMachineSet, "sample-can-set",
		&runtimehooksv1.CanUpdateMachineSetRequest{Current: set(0), Desired: set(1)})
	if (err == nil) != (setErr == nil) {
		t.Errorf("for a Machine: %v, for a MachineSet: %v", err, setErr)
	}
	for _, p := range []struct {
		what            string
		machine, set    runtimehooksv1.Patch
		current, before runtime.RawExtension
	}{
		{"infrastructure", ofMachine.InfrastructureMachinePatch, ofSet.InfrastructureMachineTemplatePatch,
			one(0).InfrastructureMachine, set(0).InfrastructureMachineTemplate},
		{"bootstrap", ofMachine.BootstrapConfigPatch, ofSet.BootstrapConfigTemplatePatch, one(0).BootstrapConfig,
			set(0).BootstrapConfigTemplate},
	} {
		a, b := specAfter(t, p.current.Raw, p.machine, "spec"), specAfter(t, p.before.Raw, p.set, "spec", "template", "spec")
		if a != b {
			t.Errorf("the %s becomes\n%s for a Machine,\n%s for a MachineSet", p.what, a, b)
		}
	}
	if ofMachine.MachinePatch.IsDefined() != ofSet.MachineSetPatch.IsDefined() {
		t.Errorf("the patch of the Machine is %s, of the MachineSet %s", ofMachine.MachinePatch.Patch,
			ofSet.MachineSetPatch.Patch)
	}
	return string(ofMachine.MachinePatch.Patch), string(ofMachine.InfrastructureMachinePatch.Patch),
		string(ofMachine.BootstrapConfigPatch.Patch), err
}

// specAfter returns the spec of a document after a patch.
func specAfter(t *testing.T, document []byte, p runtimehooksv1.Patch, path ...string) string {
	t.Helper()
	if p.IsDefined() {
		var err error
		if document, err = patch.Apply(document, p); err != nil {
			t.Fatal(err)
		}
	}
	var value any
	if err := json.Unmarshal(document, &value); err != nil {
		t.Fatal(err)
	}
	for _, name := range path {
		value = value.(map[string]any)[name]
	}
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func update(context.Context, inplace.Desired) error { return nil }

// The patches contain the desired changes that rules allow, and nothing else (UH-07).
func TestCanUpdate(t *testing.T) {
	grow := inplace.Take(sampleMachine, func(_ context.Context, current, desired *machineSpec) error {
		if desired.Memory > current.Memory {
			current.Memory = desired.Memory
		}
		current.Disks, current.Net = desired.Disks, desired.Net
		return nil
	})
	same := [2]string{`{}`, `{}`}
	for name, c := range map[string]struct {
		rules                               []inplace.Rule
		versions, infrastructure, bootstrap [2]string
		machine, infra, config, fails       string
	}{
		"a field that a rule names is patched": {
			rules: []inplace.Rule{inplace.Fields(inplace.KubeadmConfig, "files")}, infrastructure: same,
			bootstrap: [2]string{`{"files":[{"path":"/a"}]}`, `{"files":[{"path":"/b","new":true}]}`},
			config:    `{"spec":{"files":[{"new":true,"path":"/b"}]}}`,
		},
		"a field that no rule names is not patched": {
			rules:          []inplace.Rule{inplace.Fields(inplace.KubeadmConfig, "files")},
			infrastructure: [2]string{`{"memory":1}`, `{"memory":2}`},
			bootstrap:      [2]string{`{"format":"a"}`, `{"format":"b"}`},
		},
		"the same field of another kind is not patched": {
			rules:          []inplace.Rule{inplace.Fields(inplace.KubeadmConfig, "files")},
			infrastructure: [2]string{`{"files":[1]}`, `{"files":[2]}`}, bootstrap: [2]string{`{}`, `{}`},
		},
		"a field is removed": {
			rules: []inplace.Rule{inplace.Fields(inplace.KubeadmConfig, "files", "users")}, infrastructure: same,
			bootstrap: [2]string{`{"files":[1]}`, `{}`}, config: `{"spec":{"files":null}}`,
		},
		"the version of the Machine": {
			rules: []inplace.Rule{inplace.Fields(inplace.Machine, "version")}, infrastructure: same, bootstrap: same,
			versions: [2]string{"v1.35.4", "v1.36.3"}, machine: `{"spec":{"version":"v1.36.3"}}`,
		},
		"memory grows": {
			rules: []inplace.Rule{grow}, bootstrap: same,
			infrastructure: [2]string{`{"memory":1,"odd":[1]}`, `{"memory":2,"odd":[1]}`}, infra: `{"spec":{"memory":2}}`,
		},
		"memory does not shrink": {
			rules: []inplace.Rule{grow}, bootstrap: same, infrastructure: [2]string{`{"memory":2}`, `{"memory":1}`},
		},
		"fields that are not in the Go type are not patched, except in lists, which are replaced as a whole": {
			rules: []inplace.Rule{grow}, bootstrap: same,
			infrastructure: [2]string{`{"net":{"mtu":1,"secret":"x"},"disks":[]}`,
				`{"net":{"mtu":2,"secret":"y"},"disks":[{"size":1,"fast":true}]}`},
			infra: `{"spec":{"disks":[{"fast":true,"size":1}],"net":{"mtu":2}}}`,
		},
		"an object is removed": {
			rules: []inplace.Rule{grow}, bootstrap: same,
			infrastructure: [2]string{`{"net":{"mtu":1,"name":"a"}}`, `{}`}, infra: `{"spec":{"net":null}}`,
		},
		"rules for one kind add up": {
			rules: []inplace.Rule{grow, inplace.Fields(sampleMachine, "odd"),
				inplace.Fields(inplace.KubeadmConfig, "files")},
			bootstrap:      same,
			infrastructure: [2]string{`{"memory":1,"odd":1}`, `{"memory":2,"odd":2}`}, infra: `{"spec":{"memory":2,"odd":2}}`,
		},
		"a function that sets a value that is not desired": {
			rules: []inplace.Rule{inplace.Take(sampleMachine, func(_ context.Context, current, _ *machineSpec) error {
				current.Memory = 7
				return nil
			})}, bootstrap: same, infrastructure: [2]string{`{"memory":1}`, `{"memory":2}`},
			fails: "sets memory to something that is not desired",
		},
		"a function that changes the desired value": {
			rules: []inplace.Rule{inplace.Take(sampleMachine, func(_ context.Context, current, desired *machineSpec) error {
				current.Memory, desired.Memory = 7, 7
				return nil
			})}, bootstrap: same, infrastructure: [2]string{`{"memory":1}`, `{"memory":2}`},
			fails: "sets memory to something that is not desired",
		},
		"an error of the function": {
			rules: []inplace.Rule{
				inplace.Take(sampleMachine, func(context.Context, *machineSpec, *machineSpec) error {
					return errors.New("the store is down")
				}),
			},
			infrastructure: same, bootstrap: same, fails: "the store is down",
		},
		"a spec of another shape": {
			rules: []inplace.Rule{grow}, bootstrap: same, infrastructure: [2]string{`{"memory":"a"}`, `{}`},
			fails: "decoding the spec of SampleMachine",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := hooktest.Start(t, inplace.Updater{Takes: c.rules, Update: update}.Handlers("sample")...)
			machine, infra, config, err := ask(t, e, c.versions, c.infrastructure, c.bootstrap)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("error is %v, want one with %q", err, c.fails)
				}
				return
			}
			if err != nil || machine != c.machine || infra != c.infra || config != c.config {
				t.Errorf("got %q, %q, %q, %v; want %q, %q, %q", machine, infra, config, err, c.machine, c.infra, c.config)
			}
			t.Attr("rule", "UH-07")
		})
	}
}

// A Machine without a bootstrap configuration works: the user supplied its bootstrap data directly.
func TestPartsThatAreNotThere(t *testing.T) {
	e := hooktest.Start(t, inplace.Updater{Takes: []inplace.Rule{inplace.Fields(inplace.KubeadmConfig, "files")},
		Update: func(_ context.Context, d inplace.Desired) error {
			config, err := inplace.Bootstrap[map[string]any](d)
			if err != nil || config != nil {
				return fmt.Errorf("there is a configuration: %v, %w", config, err)
			}
			return nil
		}}.Handlers("sample")...)
	objects := runtimehooksv1.CanUpdateMachineRequestObjects{
		Machine: machine("v1.36.3"), InfrastructureMachine: object("infrastructure", "SampleMachine", `{}`),
	}
	response, err := hooktest.CallOne(t, e, hook.CanUpdateMachine, "sample-can-machine",
		&runtimehooksv1.CanUpdateMachineRequest{Current: objects, Desired: objects})
	if err != nil || response.BootstrapConfigPatch.IsDefined() {
		t.Errorf("got %+v, %v", response, err)
	}
	if _, err := hooktest.Call(t, e, hook.UpdateMachine,
		&runtimehooksv1.UpdateMachineRequest{Desired: runtimehooksv1.UpdateMachineRequestObjects{
			Machine: objects.Machine, InfrastructureMachine: objects.InfrastructureMachine,
		}}); err != nil {
		t.Error(err)
	}
}

// Update gets the desired state as Go types. While it is in progress, the response says when to call UpdateMachine
// again (UH-07).
func TestUpdate(t *testing.T) {
	sizes := map[string]int{}
	e := hooktest.StartWith(t, inplace.Updater{
		Takes: []inplace.Rule{inplace.Fields(sampleMachine, "memory")},
		Update: func(_ context.Context, d inplace.Desired) error {
			infrastructure, err := inplace.Infrastructure[struct{ Spec machineSpec }](d)
			if err != nil {
				return err
			}
			if sizes[d.Machine.Name] == infrastructure.Spec.Memory {
				return nil
			}
			sizes[d.Machine.Name] = infrastructure.Spec.Memory
			return server.Wait(7*time.Second, "resizing by "+d.Settings["by"])
		},
	}.Handlers("sample"), hooktest.Settings(map[string]string{"by": "hand"}))
	request := &runtimehooksv1.UpdateMachineRequest{Desired: runtimehooksv1.UpdateMachineRequestObjects{
		Machine: machine("v1.36.3"), InfrastructureMachine: object("infrastructure", "SampleMachine", `{"memory":2}`),
		BootstrapConfig: object("bootstrap", "KubeadmConfig", `{}`),
	}}
	response, err := hooktest.Call(t, e, hook.UpdateMachine, request)
	if err != nil || response.RetryAfterSeconds != 7 || !strings.Contains(response.Message, "resizing by hand") {
		t.Errorf("the first answer is %+v, %v", response, err)
	}
	done, err := hooktest.CallOne(t, e, hook.UpdateMachine, "sample-update", request)
	if err != nil || done.RetryAfterSeconds != 0 || sizes["blue-0"] != 2 {
		t.Errorf("the second answer is %+v, %v", done, err)
	}
	t.Attr("rule", "UH-07")
	request.Desired.InfrastructureMachine.Raw = []byte(`{"spec":{"memory":"a"}}`)
	if _, err := hooktest.CallOne(t, e, hook.UpdateMachine, "sample-update", request); err == nil ||
		!strings.Contains(err.Error(), "decoding the infrastructure of Machine blue-0") {
		t.Errorf("error is %v", err)
	}
}

func TestItConforms(t *testing.T) {
	hooktest.Start(t, inplace.Updater{
		Takes: []inplace.Rule{inplace.Fields(inplace.Machine, "version")}, Update: update,
	}.Handlers("sample")...).Conforms(t)
}

// server.New rejects an updater that can't work.
func TestUpdatersThatCanNotBe(t *testing.T) {
	rule := inplace.Fields(inplace.KubeadmConfig, "files")
	for want, u := range map[string]inplace.Updater{
		"has no function Update": {Takes: []inplace.Rule{rule}},
		"has no rules in Takes":  {Update: update},
		"an empty rule":          {Update: update, Takes: []inplace.Rule{rule, {}}},
		"names no field":         {Update: update, Takes: []inplace.Rule{inplace.Fields(inplace.KubeadmConfig)}},
		`has the field "spec.files"`: {
			Update: update, Takes: []inplace.Rule{inplace.Fields(inplace.KubeadmConfig, "spec.files")},
		},
		`has the field "files..x"`: {
			Update: update, Takes: []inplace.Rule{inplace.Fields(inplace.KubeadmConfig, "files..x")},
		},
		"for KubeadmConfig has no function": {
			Update: update, Takes: []inplace.Rule{inplace.Take[machineSpec](inplace.KubeadmConfig, nil)},
		},
	} {
		if _, err := server.New(server.Options{}, u.Handlers("sample")...); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
}
