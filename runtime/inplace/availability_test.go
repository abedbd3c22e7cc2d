package inplace_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/inplace"
	"github.com/capstan-dev/capstan/runtime/server"
)

// An updater that keeps Machines available says so when it makes a change in place, and otherwise says nothing.
func TestAvailability(t *testing.T) {
	for name, c := range map[string]struct {
		keeps   bool
		version string
		want    string // "" if the answer must not have the field
	}{
		"the updater keeps Machines available":                      {true, "v1.36.3", `"affectsAvailability":false`},
		"the updater does not keep Machines available":              {false, "v1.36.3", ""},
		"the updater keeps Machines available, but changes nothing": {true, "v1.35.4", ""},
	} {
		t.Run(name, func(t *testing.T) {
			updater := inplace.Updater{
				Takes: []inplace.Rule{
					inplace.Fields(inplace.Machine, "version"),
				}, Update: update, KeepsAvailable: c.keeps,
			}
			s, err := server.New(server.Options{Catalog: hook.ClusterAPI()}, updater.Handlers("sample")...)
			if err != nil {
				t.Fatal(err)
			}
			current, desired := machine("v1.35.4"), machine(c.version)
			body, err := json.Marshal(&runtimehooksv1.CanUpdateMachineRequest{
				Current: runtimehooksv1.CanUpdateMachineRequestObjects{Machine: current},
				Desired: runtimehooksv1.CanUpdateMachineRequestObjects{Machine: desired},
			})
			if err != nil {
				t.Fatal(err)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(
				w,
				httptest.NewRequest(
					http.MethodPost,
					hook.CanUpdateMachine.ID().Path("sample-can-machine"),
					bytes.NewReader(body),
				),
			)
			got := w.Body.String()
			if w.Code != http.StatusOK || !strings.Contains(got, `"kind":"CanUpdateMachineResponse"`) ||
				!strings.Contains(got, c.want) || c.want == "" && strings.Contains(got, "affectsAvailability") {
				t.Errorf("the answer is %d %s, want %q", w.Code, got, c.want)
			}
		})
	}
}

// Cluster API v1.14, which does not know the field, still gets the patches, and the answer conforms.
func TestAvailabilityBeforeV115(t *testing.T) {
	e := hooktest.Start(t, inplace.Updater{
		Takes: []inplace.Rule{inplace.Fields(inplace.Machine, "version")}, Update: update, KeepsAvailable: true,
	}.Handlers("sample")...)
	response, err := hooktest.CallOne(
		t,
		e,
		hook.CanUpdateMachine,
		"sample-can-machine",
		&runtimehooksv1.CanUpdateMachineRequest{
			Current: runtimehooksv1.CanUpdateMachineRequestObjects{Machine: machine("v1.35.4")},
			Desired: runtimehooksv1.CanUpdateMachineRequestObjects{Machine: machine("v1.36.3")},
		},
	)
	if err != nil || !response.MachinePatch.IsDefined() {
		t.Errorf("got %+v, %v", response, err)
	}
	e.Conforms(t)
}
