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
			"the agent has come back with machine %s, which is not on this host any more: it cleans up after it", carried)), true
	}
	return no(infrav1.CleanCondition, infrav1.LeftoversFoundReason, fmt.Sprintf(
		"the agent has come back with machine %s, which has no claim here, and left: %s; remove it on the host, or install "+
			"the host anew; or have the host cleaned, and let stay what can't be removed, and say so: kubectl annotate "+
			"capstanhost -n %s %s --overwrite %s=%s",
		carried, shorten(r.Leftovers), host.Namespace, host.Name, infrav1.AcceptAnnotation, carried)), true
}
