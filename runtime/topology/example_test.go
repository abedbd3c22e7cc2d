package topology_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/topology"
)

// A template is changed as a value of its Go type; the patch contains only the change.
func ExampleGeneratePatches() {
	zone := topology.Define[string]("zone")
	generate := topology.GeneratePatches(topology.Mutate(topology.Kind("example.org", "MachineTemplate"),
		func(_ context.Context, template *machineTemplate, input topology.Input) error {
			value, found, err := zone.Get(input.Variables)
			if found {
				template.Spec.Template.Spec.Class = value
			}
			return err
		}))
	response := &runtimehooksv1.GeneratePatchesResponse{}
	err := generate(context.Background(), &runtimehooksv1.GeneratePatchesRequest{
		Variables: []runtimehooksv1.Variable{variable("zone", `"a"`)},
		Items: []runtimehooksv1.GeneratePatchesRequestItem{{
			UID: "1",
			Object: runtime.RawExtension{
				Raw: []byte(`{"apiVersion":"example.org/v1","kind":"MachineTemplate","spec":{"template":{"spec":{"memory":1}}}}`),
			},
		}},
	}, response)
	for _, item := range response.Items {
		fmt.Println(item.UID, item.PatchType, string(item.Patch))
	}
	fmt.Println(err)
	// Output:
	// 1 JSONMergePatch {"spec":{"template":{"spec":{"class":"a"}}}}
	// <nil>
}
