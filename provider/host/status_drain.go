package host

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

// judgeDrained returns condition Drained for a host whose spec asks for a drain. The parameter waits says what the
// deletion of the host's machine waits for; nil means nothing.
func judgeDrained(host *infrav1.CapstanHost, clean metav1.Condition, waits *step.Obstacle) metav1.Condition {
	c := host.Spec.Claim
	switch {
	case c == nil && host.Spec.Maintenance != "":
		return yes(infrav1.DrainedCondition, infrav1.InMaintenanceReason, "no machine has the host: it may be off")
	case c == nil:
		return yes(infrav1.DrainedCondition, infrav1.DrainedReason, "no machine has the host, and none can claim it")
	case c.Released:
		return no(infrav1.DrainedCondition, clean.Reason, clean.Message)
	case waits != nil:
		return no(infrav1.DrainedCondition, waits.Reason, waits.Message)
	default:
		return no(infrav1.DrainedCondition, infrav1.WaitingForMachineReason,
			fmt.Sprintf("machine %s has the host", c.Machine))
	}
}

// inMaintenance returns the message of a host in maintenance, which also says how to end the maintenance.
func inMaintenance(host *infrav1.CapstanHost, online metav1.Condition) string {
	agent := "its agent reports"
	if online.Status != metav1.ConditionTrue {
		agent = "its agent does not report"
	}
	return fmt.Sprintf("in maintenance: %s; %s; remove spec.maintenance when the work is "+
		"done", host.Spec.Maintenance, agent)
}
