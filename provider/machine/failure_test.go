package machine

import (
	"testing"

	"k8s.io/utils/ptr"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func TestReportedFailure(t *testing.T) { // IM-42
	for name, c := range map[string]struct {
		reason, message *string
		stops           bool
	}{
		"nothing was reported": {},
		"empty fields":         {reason: ptr.To(""), message: ptr.To("")},
		"a reason":             {reason: ptr.To("Broken"), stops: true},
		"a message":            {message: ptr.To("it is broken"), stops: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := &infrav1.CapstanMachine{}
			m.Status.Deprecated.V1Beta1.FailureReason, m.Status.Deprecated.V1Beta1.FailureMessage = c.reason, c.message
			answer, err := (&Reconciler{}).reportedFailure(t.Context(), &scope{capstan: m})
			if err != nil || answer.Stopped() != c.stops {
				t.Errorf("stopped %t, error %v", answer.Stopped(), err)
			}
		})
	}
	t.Attr("rule", "IM-42 v1beta1")
}
