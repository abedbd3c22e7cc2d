package inplace

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
)

// Cluster API v1.15 adds a field to the responses of CanUpdateMachine and CanUpdateMachineSet: whether the change
// affects availability. The types of v1.14 lack this field, so these types add it. The hook's version stays the
// same on the wire, because Cluster API v1.14 ignores the field.
type (
	// MachineAnswer is the response of CanUpdateMachine.
	MachineAnswer struct {
		runtimehooksv1.CanUpdateMachineResponse `json:",inline"`
		// AffectsAvailability is false if the Machine stays available during the update: Cluster API then does not create an
		// additional Machine. Default: the Machine may become unavailable.
		AffectsAvailability *bool `json:"affectsAvailability,omitempty"`
	}
	// MachineSetAnswer is the response of CanUpdateMachineSet.
	MachineSetAnswer struct {
		runtimehooksv1.CanUpdateMachineSetResponse `json:",inline"`
		// AffectsAvailability has the same meaning as in [MachineAnswer].
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

// The hooks with these responses, for servers. Callers use the hooks of package hook.
var (
	// CanUpdateMachine is hook.CanUpdateMachine with a response that includes availability.
	CanUpdateMachine = hook.Define[runtimehooksv1.CanUpdateMachineRequest, MachineAnswer](
		runtimehooksv1.GroupVersion, "CanUpdateMachine")
	// CanUpdateMachineSet is hook.CanUpdateMachineSet with a response that includes availability.
	CanUpdateMachineSet = hook.Define[runtimehooksv1.CanUpdateMachineSetRequest, MachineSetAnswer](
		runtimehooksv1.GroupVersion, "CanUpdateMachineSet")
)

// availability returns the field AffectsAvailability for an answer with these patches: false if the updater keeps
// Machines available and at least one patch makes a change, otherwise nil.
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
