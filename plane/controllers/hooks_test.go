package controllers

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/core/reconcilers/topology/cluster/patches/external"
	"sigs.k8s.io/cluster-api/exp/topology/desiredstate"
	"sigs.k8s.io/cluster-api/util/cache"

	"github.com/capstan-dev/capstan/internal/gates"
	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/server"
)

// extensionWith returns a client that knows one extension, "ext", with these handlers, and counts its calls.
func extensionWith(t *testing.T, handlers ...server.Handler) (*client.Client, *atomic.Int32) {
	t.Helper()
	extension, err := server.New(server.Options{}, handlers...)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewTLSServer(extension)
	t.Cleanup(s.Close)
	count := &atomic.Int32{}
	calls, err := client.New(client.Options{Observer: func(record.Call) { count.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(calls.Close)
	if err := calls.WarmUp(&runtimev1.ExtensionConfigList{}); err != nil {
		t.Fatal(err)
	}
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "ext"}}
	config.Spec.ClientConfig.URL = s.URL
	config.Spec.ClientConfig.CABundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	config.Spec.NamespaceSelector = &metav1.LabelSelector{}
	if config, err = calls.Discover(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if err := calls.Register(config); err != nil {
		t.Fatal(err)
	}
	return calls, count
}

func hookCluster() *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue", UID: "u1"}}
}

// TestPatchEngineOfClusterAPI calls extensions as Cluster API's patch engine does, with one request for many calls
// (UH-01, UH-04).
func TestPatchEngineOfClusterAPI(t *testing.T) {
	if err := gates.Plane().Open(); err != nil {
		t.Fatal(err)
	}
	calls, _ := extensionWith(t,
		server.Handle(hook.GeneratePatches, "patch", func(_ context.Context, request *runtimehooksv1.GeneratePatchesRequest,
			response *runtimehooksv1.GeneratePatchesResponse) error {
			for _, item := range request.Items {
				patch, err := json.Marshal(map[string]any{
					"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"zone": request.Settings["zone"]}}},
				})
				if err != nil {
					return err
				}
				response.Items = append(response.Items, runtimehooksv1.GeneratePatchesResponseItem{
					UID: item.UID, PatchType: runtimehooksv1.JSONMergePatchType, Patch: patch,
				})
			}
			return nil
		}),
		server.Handle(hook.ValidateTopology, "validate",
			func(_ context.Context, request *runtimehooksv1.ValidateTopologyRequest,
				response *runtimehooksv1.ValidateTopologyResponse) error {
				response.Message = request.Settings["zone"]
				return nil
			}))
	patch := &clusterv1.ClusterClassPatch{Name: "zone", External: &clusterv1.ExternalPatchDefinition{
		GeneratePatchesExtension: "patch.ext", ValidateTopologyExtension: "validate.ext",
		Settings: map[string]string{"zone": "a"},
	}}
	request := &runtimehooksv1.GeneratePatchesRequest{Items: []runtimehooksv1.GeneratePatchesRequestItem{
		{UID: "1", HolderReference: runtimehooksv1.HolderReference{Kind: "Cluster"},
			Object: runtime.RawExtension{Raw: []byte(`{"kind":"X"}`)}},
	}}
	for range 3 {
		response, err := external.NewGenerator(calls, patch).Generate(t.Context(), hookCluster(), request)
		if err != nil || len(response.Items) != 1 || response.Items[0].UID != "1" ||
			!strings.Contains(string(response.Items[0].Patch), `"zone":"a"`) {
			t.Fatalf("GeneratePatches: got %+v, error %v", response, err)
		}
	}
	validated, err := external.NewValidator(calls, patch).Validate(t.Context(), hookCluster(),
		&runtimehooksv1.ValidateTopologyRequest{})
	if err != nil || validated.Message != "a" {
		t.Errorf("ValidateTopology: got %+v, error %v", validated, err)
	}
	t.Attr("rule", "UH-04")
}

// TestUpgradePlanOfClusterAPI asks an extension for the versions between two versions as Cluster API does (UH-06).
// Cluster API caches the answer itself.
func TestUpgradePlanOfClusterAPI(t *testing.T) {
	calls, count := extensionWith(t, server.Handle(hook.GenerateUpgradePlan, "plan",
		func(_ context.Context, request *runtimehooksv1.GenerateUpgradePlanRequest,
			response *runtimehooksv1.GenerateUpgradePlanResponse) error {
			response.ControlPlaneUpgrades = []runtimehooksv1.UpgradeStep{{Version: "v1.35.0"},
				{Version: request.ToKubernetesVersion}}
			response.WorkersUpgrades = response.ControlPlaneUpgrades[1:]
			return nil
		}))
	kept := cache.New[desiredstate.GenerateUpgradePlanCacheEntry](t.Context(), cache.DefaultTTL)
	plan := desiredstate.GetUpgradePlanFromExtension(calls, kept, hookCluster(), "plan.ext")
	for range 2 {
		controlPlane, workers, err := plan(t.Context(), "v1.36.0", "v1.34.0", "v1.34.0")
		if err != nil || !slices.Equal(controlPlane, []string{"v1.35.0", "v1.36.0"}) ||
			!slices.Equal(workers, []string{"v1.36.0"}) {
			t.Fatalf("the plan is %v for the control plane and %v for workers, error %v", controlPlane, workers, err)
		}
	}
	if count.Load() != 1 {
		t.Errorf("there were %d calls of the extension, want 1", count.Load())
	}
}

// TestInPlaceUpdateThroughTheClient: calls of CanUpdateMachine go to extensions by name, and UpdateMachine blocks until
// the update is done (UH-07).
func TestInPlaceUpdateThroughTheClient(t *testing.T) {
	calls, _ := extensionWith(t,
		server.Handle(hook.CanUpdateMachine, "can", func(_ context.Context, request *runtimehooksv1.CanUpdateMachineRequest,
			response *runtimehooksv1.CanUpdateMachineResponse) error {
			response.MachinePatch = runtimehooksv1.Patch{PatchType: runtimehooksv1.JSONMergePatchType,
				Patch: []byte(`{"spec":{"version":"` + request.Desired.Machine.Spec.Version + `"}}`)}
			return nil
		}),
		server.Handle(hook.UpdateMachine, "update", func(_ context.Context, request *runtimehooksv1.UpdateMachineRequest,
			_ *runtimehooksv1.UpdateMachineResponse) error {
			if request.Desired.Machine.Annotations["done"] == "" {
				return server.Wait(15e9, "updating")
			}
			return nil
		}))
	machine := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m1", UID: "u1"},
		Spec:       clusterv1.MachineSpec{Version: "v1.36.0"},
	}
	names, err := calls.GetAllExtensions(t.Context(), runtimehooksv1.CanUpdateMachine, machine)
	if err != nil || !slices.Equal(names, []string{"can.ext"}) {
		t.Fatalf("the handlers are %v, error %v", names, err)
	}
	can := &runtimehooksv1.CanUpdateMachineResponse{}
	if err := calls.CallExtension(t.Context(), runtimehooksv1.CanUpdateMachine, machine, names[0],
		&runtimehooksv1.CanUpdateMachineRequest{Desired: runtimehooksv1.CanUpdateMachineRequestObjects{Machine: *machine}},
		can); err != nil ||
		string(can.MachinePatch.Patch) != `{"spec":{"version":"v1.36.0"}}` {
		t.Errorf("CanUpdateMachine: got %+v, error %v", can, err)
	}
	for _, want := range []int32{15, 15, 0} {
		update := &runtimehooksv1.UpdateMachineResponse{}
		if want == 0 {
			machine.Annotations = map[string]string{"done": "yes"}
		}
		if err := calls.CallAllExtensions(t.Context(), runtimehooksv1.UpdateMachine, machine,
			&runtimehooksv1.UpdateMachineRequest{Desired: runtimehooksv1.UpdateMachineRequestObjects{Machine: *machine}},
			update); err != nil || update.RetryAfterSeconds != want {
			t.Errorf("UpdateMachine: got %+v, error %v, want a wait of %d s", update, err, want)
		}
	}
}
