// Package readyevent records an Event when condition Ready changes in a way that people ask about: what keeps an
// object from working, and that it works again.
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

// obstacles are the reasons of Ready that somebody may have to do something about. All others are steps on the way,
// which conditions show.
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

// Object has conditions and can have events.
type Object interface {
	client.Object
	conditions.Getter
}

// Record records an event if Ready changed between two states of an object in a way that is worth one. The second
// state must be written already.
func Record(recorder events.EventRecorder, before, after Object) {
	if kind, reason, note := decide(conditions.Get(before, infrav1.ReadyCondition),
		conditions.Get(after, infrav1.ReadyCondition)); kind != "" {
		recorder.Eventf(after, nil, kind, reason, "Reconcile", "%s", Note(note))
	}
}

// maxNote is how long the text of an event may be, in bytes: the API server refuses longer ones.
const maxNote = 1024

// Note shortens a text to what an event may have.
func Note(text string) string {
	const mark = "…"
	if len(text) <= maxNote {
		return text
	}
	return strings.ToValidUTF8(text[:maxNote-len(mark)], "") + mark
}

// decide returns type, reason and text of the event; no type: there is none.
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
