package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/patch"
)

// contentCheck checks the fields of an answer other than status and message, for hooks whose answers have such fields.
var contentCheck = check{Check{
	Name: "content", Rules: []string{"UH-01", "UH-02", "UH-03", "UH-05", "UH-06", "UH-07"},
	Doc:      "patches apply and change only what they may, variables have schemas, upgrade plans lead to the target",
	Requires: []Requirement{RequiresHandler, RequiresAnswer, RequiresSuccess, RequiresContent},
}, checkContent}

func checkContent(_ context.Context, _ *probe, h *handler) error {
	request := h.descriptor.NewRequest()
	if err := json.Unmarshal(h.body, request); err != nil {
		return err
	}
	return contentOf(h.response)(request)
}

// contentOf returns the function that checks the content of a response against its request. It returns nil for
// responses that only have status and message.
func contentOf(response runtimehooksv1.ResponseObject) func(request runtime.Object) error {
	switch answer := response.(type) {
	case *runtimehooksv1.GeneratePatchesResponse:
		return pair(answer, checkPatches)
	case *runtimehooksv1.DiscoverVariablesResponse:
		return func(runtime.Object) error { return checkVariables(answer) }
	case *runtimehooksv1.GenerateUpgradePlanResponse:
		return pair(answer, checkPlan)
	case *runtimehooksv1.CanUpdateMachineResponse:
		return pair(answer, checkMachine)
	case *runtimehooksv1.CanUpdateMachineSetResponse:
		return pair(answer, checkMachineSet)
	}
	return nil
}

// pair calls a check with requests of the expected type. A catalog may have requests of other types, which pair
// ignores.
func pair[Request, Response any](answer *Response, check func(*Request, *Response) error) func(runtime.Object) error {
	return func(request runtime.Object) error {
		if asked, ok := any(request).(*Request); ok {
			return check(asked, answer)
		}
		return nil
	}
}

// checkPatches checks UH-01 to UH-03.
func checkPatches(request *runtimehooksv1.GeneratePatchesRequest,
	response *runtimehooksv1.GeneratePatchesResponse) error {
	if err := checkCost(response); err != nil {
		return err
	}
	var found problems
	for _, item := range response.Items {
		i := slices.IndexFunc(request.Items, func(asked runtimehooksv1.GeneratePatchesRequestItem) bool {
			return asked.UID == item.UID
		})
		if i < 0 {
			found.add(fmt.Errorf("a patch is for the uid %q, which the request does not have (UH-01)", item.UID))
			continue
		}
		before := request.Items[i].Object.Raw
		after, err := patch.Apply(before, runtimehooksv1.Patch{PatchType: item.PatchType, Patch: item.Patch})
		if err != nil {
			found.add(fmt.Errorf("the patch for the uid %q: %w (UH-01)", item.UID, err))
			continue
		}
		switch same, err := patch.SameOutside(before, after, "metadata.labels", "metadata.annotations", "spec.template.spec",
			"spec.template.metadata"); {
		case err != nil:
			found.add(err)
		case !same:
			found.add(fmt.Errorf("the patch for the uid %q changes what patches must not change (UH-02)", item.UID))
		default:
			if same, err := patch.SameOutside(before, after); err == nil && same {
				found.add(warn("the patch for the uid %q changes nothing: leave it out (UH-03)", item.UID))
			}
		}
	}
	return found.err()
}

// checkCost applies the limits of one patch to all of them together, as callers do.
func checkCost(response *runtimehooksv1.GeneratePatchesResponse) error {
	operations, copies := 0, 0
	for _, item := range response.Items {
		o, c, err := patch.Count(runtimehooksv1.Patch{PatchType: item.PatchType, Patch: item.Patch})
		if err != nil {
			continue // reported where it is applied
		}
		operations, copies = operations+o, copies+c
		if operations > patch.MaxOperations || copies > patch.MaxCopies {
			return fmt.Errorf("its patches have more than %d operations or %d copies together: callers refuse them (UH-01)",
				patch.MaxOperations, patch.MaxCopies)
		}
	}
	return nil
}

// checkVariables checks UH-05.
func checkVariables(response *runtimehooksv1.DiscoverVariablesResponse) error {
	names := map[string]bool{}
	var found problems
	for _, v := range response.Variables {
		s := v.Schema.OpenAPIV3Schema
		switch {
		case v.Name == "" || v.Name == runtimehooksv1.BuiltinsName:
			found.add(fmt.Errorf("a variable has the name %q", v.Name))
		case names[v.Name]:
			found.add(fmt.Errorf("variable %q is defined twice", v.Name))
		case s.Type == "" && s.XPreserveUnknownFields == nil && s.XIntOrString == nil:
			found.add(fmt.Errorf("the schema of variable %q has no type", v.Name))
		}
		names[v.Name] = true
	}
	return found.err()
}

// checkPlan checks UH-06.
func checkPlan(request *runtimehooksv1.GenerateUpgradePlanRequest,
	response *runtimehooksv1.GenerateUpgradePlanResponse) error {
	from, err := version.ParseSemantic(request.FromControlPlaneKubernetesVersion)
	if err != nil {
		return err
	}
	if len(response.ControlPlaneUpgrades) == 0 {
		return errors.New("there is no step for the control plane (UH-06)")
	}
	previous := from
	for _, step := range response.ControlPlaneUpgrades {
		next, err := version.ParseSemantic(step.Version)
		switch {
		case err != nil:
			return fmt.Errorf("a step for the control plane: %w (UH-06)", err)
		case !previous.LessThan(next):
			return fmt.Errorf("the step of the control plane to %s does not go up (UH-06)", step.Version)
		case next.Major() != previous.Major() || next.Minor() > previous.Minor()+1:
			return fmt.Errorf("the step of the control plane from %s to %s leaves out a minor version (UH-06)", previous, next)
		}
		previous = next
	}
	if last := response.ControlPlaneUpgrades[len(response.ControlPlaneUpgrades)-1].Version; last !=
		request.ToKubernetesVersion {
		return fmt.Errorf("the control plane ends at %s, not at %s (UH-06)", last, request.ToKubernetesVersion)
	}
	at := 0
	for _, step := range response.WorkersUpgrades {
		i := slices.IndexFunc(response.ControlPlaneUpgrades[at:],
			func(s runtimehooksv1.UpgradeStep) bool { return s.Version == step.Version })
		if i < 0 {
			return fmt.Errorf("the step of the workers to %s is not one of the control plane, or not in its order (UH-06)",
				step.Version)
		}
		at += i + 1
	}
	if n := len(response.WorkersUpgrades); n > 0 && response.WorkersUpgrades[n-1].Version != request.ToKubernetesVersion {
		return fmt.Errorf("the workers end at %s, not at %s (UH-06)", response.WorkersUpgrades[n-1].Version,
			request.ToKubernetesVersion)
	}
	return nil
}

func checkMachine(
	request *runtimehooksv1.CanUpdateMachineRequest, response *runtimehooksv1.CanUpdateMachineResponse,
) error {
	current := request.Current
	return errors.Join(
		checkInPlace("machinePatch", current.Machine, response.MachinePatch, "spec"),
		checkInPlace("infrastructureMachinePatch", current.InfrastructureMachine,
			response.InfrastructureMachinePatch, "spec"),
		checkInPlace("bootstrapConfigPatch", current.BootstrapConfig, response.BootstrapConfigPatch, "spec"))
}

func checkMachineSet(
	request *runtimehooksv1.CanUpdateMachineSetRequest, response *runtimehooksv1.CanUpdateMachineSetResponse,
) error {
	const allowed = "spec.template.spec"
	current := request.Current
	return errors.Join(
		checkInPlace("machineSetPatch", current.MachineSet, response.MachineSetPatch, allowed),
		checkInPlace("infrastructureMachineTemplatePatch", current.InfrastructureMachineTemplate,
			response.InfrastructureMachineTemplatePatch, allowed),
		checkInPlace("bootstrapConfigTemplatePatch", current.BootstrapConfigTemplate,
			response.BootstrapConfigTemplatePatch, allowed))
}

// checkInPlace checks UH-07: a patch applies to the current object and changes only the machine's spec, because
// Cluster API drops all other changes.
func checkInPlace(what string, current any, p runtimehooksv1.Patch, allowed string) error {
	if !p.IsDefined() {
		return nil
	}
	before, ok := current.(runtime.RawExtension)
	data := before.Raw
	if !ok {
		var err error
		if data, err = json.Marshal(current); err != nil {
			return err
		}
	}
	after, err := patch.Apply(data, p)
	if err != nil {
		return fmt.Errorf("%s: %w (UH-07)", what, err)
	}
	if same, err := patch.SameOutside(data, after, allowed); err != nil || !same {
		return fmt.Errorf("%s changes more than %s (UH-07)", what, allowed)
	}
	return nil
}
