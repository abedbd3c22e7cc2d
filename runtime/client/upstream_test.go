package client_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/core/reconcilers/topology/cluster/patches/external"
	"sigs.k8s.io/cluster-api/exp/topology/desiredstate"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/cache"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

// Cluster API's patch engine calls extensions through these; it uses one request for many calls (UH-01, UH-04).
func TestPatchEngineOfClusterAPI(t *testing.T) {
	if err := feature.MutableGates.SetFromMap(map[string]bool{string(feature.RuntimeSDK): true}); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, client.Options{})
	b.extension("ext", nil,
		server.Handle(hook.GeneratePatches, "patch", func(_ context.Context, request *runtimehooksv1.GeneratePatchesRequest, response *runtimehooksv1.GeneratePatchesResponse) error {
			for _, item := range request.Items {
				patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"zone": request.Settings["zone"]}}}})
				if err != nil {
					return err
				}
				response.Items = append(response.Items, runtimehooksv1.GeneratePatchesResponseItem{UID: item.UID, PatchType: runtimehooksv1.JSONMergePatchType, Patch: patch})
			}
			return nil
		}),
		server.Handle(hook.ValidateTopology, "validate", func(_ context.Context, request *runtimehooksv1.ValidateTopologyRequest, response *runtimehooksv1.ValidateTopologyResponse) error {
			response.Message = request.Settings["zone"]
			return nil
		}))
	patch := &clusterv1.ClusterClassPatch{Name: "zone", External: &clusterv1.ExternalPatchDefinition{
		GeneratePatchesExtension: "patch.ext", ValidateTopologyExtension: "validate.ext", Settings: map[string]string{"zone": "a"},
	}}
	request := &runtimehooksv1.GeneratePatchesRequest{Items: []runtimehooksv1.GeneratePatchesRequestItem{
		{UID: "1", HolderReference: runtimehooksv1.HolderReference{Kind: "Cluster"}, Object: runtime.RawExtension{Raw: []byte(`{"kind":"X"}`)}},
	}}
	for range 3 {
		response, err := external.NewGenerator(b.client, patch).Generate(t.Context(), testCluster(), request)
		if err != nil || len(response.Items) != 1 || response.Items[0].UID != "1" || !strings.Contains(string(response.Items[0].Patch), `"zone":"a"`) {
			t.Fatalf("got %+v, %v", response, err)
		}
	}
	validated, err := external.NewValidator(b.client, patch).Validate(t.Context(), testCluster(), &runtimehooksv1.ValidateTopologyRequest{})
	if err != nil || validated.Message != "a" {
		t.Errorf("got %+v, %v", validated, err)
	}
}

// Cluster API asks for the versions between two versions in this way (UH-06), and remembers the answer itself.
func TestUpgradePlanOfClusterAPI(t *testing.T) {
	b := newBench(t, client.Options{})
	b.extension("ext", nil, server.Handle(hook.GenerateUpgradePlan, "plan",
		func(_ context.Context, request *runtimehooksv1.GenerateUpgradePlanRequest, response *runtimehooksv1.GenerateUpgradePlanResponse) error {
			response.ControlPlaneUpgrades = []runtimehooksv1.UpgradeStep{{Version: "v1.35.0"}, {Version: request.ToKubernetesVersion}}
			response.WorkersUpgrades = response.ControlPlaneUpgrades[1:]
			return nil
		}))
	kept := cache.New[desiredstate.GenerateUpgradePlanCacheEntry](t.Context(), cache.DefaultTTL)
	plan := desiredstate.GetUpgradePlanFromExtension(b.client, kept, testCluster(), "plan.ext")
	for range 2 {
		controlPlane, workers, err := plan(t.Context(), "v1.36.0", "v1.34.0", "v1.34.0")
		if err != nil || !slices.Equal(controlPlane, []string{"v1.35.0", "v1.36.0"}) || !slices.Equal(workers, []string{"v1.36.0"}) {
			t.Fatalf("got %v, %v, %v", controlPlane, workers, err)
		}
	}
	if len(b.observed()) != 1 {
		t.Errorf("%d calls", len(b.observed()))
	}
}

// In-place updates: what can be changed is asked by name, the update itself blocks until it is done (UH-07).
func TestInPlaceUpdateThroughTheClient(t *testing.T) {
	b := newBench(t, client.Options{})
	b.extension("ext", nil,
		server.Handle(hook.CanUpdateMachine, "can", func(_ context.Context, request *runtimehooksv1.CanUpdateMachineRequest, response *runtimehooksv1.CanUpdateMachineResponse) error {
			response.MachinePatch = runtimehooksv1.Patch{PatchType: runtimehooksv1.JSONMergePatchType,
				Patch: []byte(`{"spec":{"version":"` + request.Desired.Machine.Spec.Version + `"}}`)}
			return nil
		}),
		server.Handle(hook.UpdateMachine, "update", func(_ context.Context, request *runtimehooksv1.UpdateMachineRequest, _ *runtimehooksv1.UpdateMachineResponse) error {
			if request.Desired.Machine.Annotations["done"] == "" {
				return server.Wait(15e9, "updating")
			}
			return nil
		}))
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m1", UID: "u1"}, Spec: clusterv1.MachineSpec{Version: "v1.36.0"}}
	names, err := b.client.GetAllExtensions(t.Context(), runtimehooksv1.CanUpdateMachine, machine)
	if err != nil || !slices.Equal(names, []string{"can.ext"}) {
		t.Fatalf("handlers are %v, %v", names, err)
	}
	can := &runtimehooksv1.CanUpdateMachineResponse{}
	if err := b.client.CallExtension(t.Context(), runtimehooksv1.CanUpdateMachine, machine, names[0],
		&runtimehooksv1.CanUpdateMachineRequest{Desired: runtimehooksv1.CanUpdateMachineRequestObjects{Machine: *machine}}, can); err != nil ||
		string(can.MachinePatch.Patch) != `{"spec":{"version":"v1.36.0"}}` {
		t.Errorf("got %+v, %v", can, err)
	}
	for _, want := range []int32{15, 15, 0} {
		update := &runtimehooksv1.UpdateMachineResponse{}
		if want == 0 {
			machine.Annotations = map[string]string{"done": "yes"}
		}
		if err := b.client.CallAllExtensions(t.Context(), runtimehooksv1.UpdateMachine, machine,
			&runtimehooksv1.UpdateMachineRequest{Desired: runtimehooksv1.UpdateMachineRequestObjects{Machine: *machine}}, update); err != nil || update.RetryAfterSeconds != want {
			t.Errorf("got %+v, %v, want a wait of %d s", update, err, want)
		}
	}
}
