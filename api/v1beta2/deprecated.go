package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeprecatedStatus has the fields that only older contract versions define. Each part is removed when its API version
// is no longer served.
// +kubebuilder:validation:MinProperties=1
type DeprecatedStatus struct {
	// v1beta1 has the fields that only contract v1beta1 defines.
	// +optional
	V1Beta1 V1Beta1Status `json:"v1beta1,omitempty,omitzero"`
}

// V1Beta1Status keeps what clients wrote through API version v1beta1 if v1beta2 has no other field for it. Clients of
// v1beta1 can thus read it back. The controller never writes it, but respects the failure (IM-42).
// +kubebuilder:validation:MinProperties=1
type V1Beta1Status struct {
	// failureReason is the reason that a client wrote (IM-22, IC-29). Empty means that there is none, even if the
	// conditions report a terminal failure. Default: what follows from the conditions.
	// +optional
	// +kubebuilder:validation:MinLength=0
	// +kubebuilder:validation:MaxLength=256
	FailureReason *string `json:"failureReason,omitempty"`

	// failureMessage is the message that a client wrote (IM-23, IC-30). Empty means that there is none, even if the
	// conditions report a terminal failure. Default: what follows from the conditions.
	// +optional
	// +kubebuilder:validation:MinLength=0
	// +kubebuilder:validation:MaxLength=10240
	FailureMessage *string `json:"failureMessage,omitempty"`

	// conditions are the conditions whose v1beta1 form can't be derived from status.conditions, for example because of
	// their severity. Each is valid only while status.conditions still has the condition that was made from it.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []V1Beta1Condition `json:"conditions,omitempty"`
}

// V1Beta1Condition is a condition as contract v1beta1 defines it (IM-29, IC-26).
type V1Beta1Condition struct {
	// type is the type of the condition.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Type string `json:"type,omitempty"`

	// status is True, False or Unknown.
	// +required
	// +kubebuilder:validation:Enum=True;False;Unknown
	Status metav1.ConditionStatus `json:"status,omitempty"`

	// severity is Error, Warning or Info; only conditions that are False should have one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Severity string `json:"severity,omitempty"`

	// lastTransitionTime is when the status last changed.
	// +required
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty,omitzero"`

	// reason is the reason for the status in one word.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`

	// message explains the status to people.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10240
	Message string `json:"message,omitempty"`
}

// terminalReasons are the reasons of conditions whose failure only a replacement of the object repairs.
var terminalReasons = map[string]bool{BootstrapFailedReason: true, HostGoneReason: true, EndpointMovedReason: true}

// IsTerminal reports whether a condition reports a failure that only a replacement of the object repairs (IM-50).
func IsTerminal(c metav1.Condition) bool {
	return c.Status == metav1.ConditionFalse && terminalReasons[c.Reason]
}

// Failure returns the reason and the message of the terminal failure of an object with this status, or empty strings
// (IM-42, IM-50): those written through v1beta1, else those of the terminal condition.
func (s *CapstanMachineStatus) Failure() (reason, message string) {
	return failure(s.Deprecated.V1Beta1, s.Conditions)
}

// Failure returns the reason and the message of the terminal failure of an object with this status, or empty strings
// (IC-29).
func (s *CapstanClusterStatus) Failure() (reason, message string) {
	return failure(s.Deprecated.V1Beta1, s.Conditions)
}

func failure(written V1Beta1Status, conditions []metav1.Condition) (reason, message string) {
	for _, c := range conditions {
		if c.Type != ReadyCondition && IsTerminal(c) { // Ready only repeats another condition
			reason, message = c.Reason, c.Message
			break
		}
	}
	if written.FailureReason != nil {
		reason = *written.FailureReason
	}
	if written.FailureMessage != nil {
		message = *written.FailureMessage
	}
	return reason, message
}
