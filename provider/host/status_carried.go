package host

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/claim"
)

// judgeCarried returns condition Clean for a host without a claim whose agent still has to clean up after a machine. It
// reports false if there is no such machine.
func judgeCarried(host *infrav1.CapstanHost) (metav1.Condition, bool) {
	carried := claim.Carried(host)
	if carried == "" {
		return metav1.Condition{}, false
	}
	r := host.Status.Agent.Cleaning
	if r == nil || r.ProviderID != carried || !r.Done || len(r.Leftovers) == 0 {
		return no(infrav1.CleanCondition, infrav1.CarriesMachineReason, fmt.Sprintf(
			"the agent has come back with machine %s, which no longer has this host: the agent is cleaning up", carried)), true
	}
	return no(infrav1.CleanCondition, infrav1.LeftoversFoundReason, fmt.Sprintf(
		"the agent has come back with machine %s, which has no claim here, and found: %s; remove that on the host, or "+
			"reinstall the host; or have the host cleaned and accept what can't be removed: kubectl annotate capstanhost -n "+
			"%s %s --overwrite %s=%s",
		carried, shorten(r.Leftovers), host.Namespace, host.Name, infrav1.AcceptAnnotation, carried)), true
}
