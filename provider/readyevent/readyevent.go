// Package readyevent records an Event when condition Ready changes in a way that people should know about: when
// something keeps an object from working, and when it works again.
package readyevent

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// obstacles are the reasons of Ready that may need somebody's attention. All other reasons are normal intermediate
// states, which conditions show.
var obstacles = map[string]bool{
	infrav1.AbandonedReason:          true,
	infrav1.AccessDeniedReason:       true,
	infrav1.EndpointFailedReason:     true,
	infrav1.EndpointMovedReason:      true,
	infrav1.HostGoneReason:           true,
	infrav1.HostOfflineReason:        true,
	infrav1.LeftBehindReason:         true,
	infrav1.LeftoversFoundReason:     true,
	infrav1.MachineGoneReason:        true,
	infrav1.NoHostMatchesReason:      true,
	infrav1.NotComparedReason:        true,
	infrav1.ReimageNeededReason:      true,
	infrav1.StepFailedReason:         true,
	infrav1.SupplierMissingReason:    true,
	infrav1.WaitingForEndpointReason: true,
}

// Object has conditions and can have Events.
type Object interface {
	client.Object
	conditions.Getter
}

// Record records an Event if the change of Ready between two states of an object warrants one. The second state must
// already be written.
func Record(recorder events.EventRecorder, before, after Object) {
	if kind, reason, note := decide(conditions.Get(before, infrav1.ReadyCondition),
		conditions.Get(after, infrav1.ReadyCondition)); kind != "" {
		recorder.Eventf(after, nil, kind, reason, "Reconcile", "%s", Note(note))
	}
}

// maxNote is the longest text of an Event, in bytes. The API server refuses longer ones.
const maxNote = 1024

// Note shortens a text to the length that an Event may have.
func Note(text string) string {
	const mark = "…"
	if len(text) <= maxNote {
		return text
	}
	return strings.ToValidUTF8(text[:maxNote-len(mark)], "") + mark
}

// decide returns the type, reason and text of the Event. The type is "" if there is none.
func decide(before, after *metav1.Condition) (kind, reason, note string) {
	if before == nil {
		before = &metav1.Condition{}
	}
	switch {
	case after == nil || before.Reason == after.Reason:
		return "", "", ""
	case obstacles[after.Reason] && after.Status != metav1.ConditionTrue:
		return corev1.EventTypeWarning, after.Reason, after.Message
	case obstacles[before.Reason] && after.Status == metav1.ConditionTrue:
		return corev1.EventTypeNormal, infrav1.ReadyReason, "ready again after " + before.Reason
	default:
		return "", "", ""
	}
}
