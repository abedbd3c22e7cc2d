package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

// failureToHub returns the part of a v1beta1 failure that can't be derived from the conditions of the v1beta2 object.
// old is the part that was kept when the v1beta1 object was made.
func failureToHub(reason, message string, conditions []metav1.Condition,
	old *v1beta2.V1Beta1Status) (keptReason, keptMessage *string) {
	followsReason, followsMessage := (&v1beta2.CapstanMachineStatus{Conditions: conditions}).Failure()
	return keep(reason, followsReason, old.FailureReason), keep(message, followsMessage, old.FailureMessage)
}

// keep returns the value if it must be kept, or nil if it can be derived. follows is the derived value; old is the
// value kept before.
func keep(value, follows string, old *string) *string {
	switch {
	case old != nil && *old == value:
		return old
	case value == follows:
		return nil
	default:
		return &value
	}
}
