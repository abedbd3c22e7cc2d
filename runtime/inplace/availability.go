package inplace

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
)

// Cluster API v1.15 adds a field to the answers of CanUpdateMachine and CanUpdateMachineSet: whether the change affects
// availability. Types of v1.14 lack it, so these have it beside them. On the wire it is the same hook of the same
// version: callers of v1.14 do not read the field.
type (
	// MachineAnswer answers CanUpdateMachine.
	MachineAnswer struct {
		runtimehooksv1.CanUpdateMachineResponse `json:",inline"`
		// AffectsAvailability is false if the Machine stays available while it is updated: Cluster API then makes no
		// Machine more. Default: it may not.
		AffectsAvailability *bool `json:"affectsAvailability,omitempty"`
	}
	// MachineSetAnswer answers CanUpdateMachineSet.
	MachineSetAnswer struct {
		runtimehooksv1.CanUpdateMachineSetResponse `json:",inline"`
		// AffectsAvailability is as in [MachineAnswer].
		AffectsAvailability *bool `json:"affectsAvailability,omitempty"`
	}
)

// DeepCopyObject implements runtime.Object.
func (a *MachineAnswer) DeepCopyObject() runtime.Object {
	return &MachineAnswer{*a.DeepCopy(), copyOf(a.AffectsAvailability)}
}

// DeepCopyObject implements runtime.Object.
func (a *MachineSetAnswer) DeepCopyObject() runtime.Object {
	return &MachineSetAnswer{*a.DeepCopy(), copyOf(a.AffectsAvailability)}
}

func copyOf(b *bool) *bool {
	if b == nil {
		return nil
	}
	return ptr.To(*b)
}

// The hooks with these answers, for servers. Those who call use the hooks of package hook.
var (
	// CanUpdateMachine is hook.CanUpdateMachine with an answer that speaks of availability.
	CanUpdateMachine = hook.Define[runtimehooksv1.CanUpdateMachineRequest, MachineAnswer](
		runtimehooksv1.GroupVersion, "CanUpdateMachine")
	// CanUpdateMachineSet is hook.CanUpdateMachineSet with an answer that speaks of availability.
	CanUpdateMachineSet = hook.Define[runtimehooksv1.CanUpdateMachineSetRequest, MachineSetAnswer](
		runtimehooksv1.GroupVersion, "CanUpdateMachineSet")
)

// availability is what an updater says of availability. It says nothing where it takes nothing over.
func (u Updater) availability(patches ...runtimehooksv1.Patch) *bool {
	if !u.KeepsAvailable {
		return nil
	}
	for _, p := range patches {
		if p.IsDefined() {
			return ptr.To(false)
		}
	}
	return nil
}
