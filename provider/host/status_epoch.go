package host

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// judgeEpoch returns condition Ready for an owned host whose agent has not yet reported a token of the current epoch,
// or nil if it has. Until then, a previous user of the host may have a token that still works.
func judgeEpoch(host *infrav1.CapstanHost) *metav1.Condition {
	if host.Spec.Supplier != "" || reportsEpoch(host) {
		return nil
	}
	var c metav1.Condition
	switch agent := host.Status.Agent; {
	case agent == nil:
		c = no(infrav1.ReadyCondition, infrav1.HostStartingReason, "the agent has not reported yet")
	case agent.Epoch == nil:
		c = no(infrav1.ReadyCondition, infrav1.AgentOutdatedReason, outdated)
	default:
		c = no(infrav1.ReadyCondition, infrav1.TokenOutdatedReason, fmt.Sprintf(
			"the agent's token belongs to epoch %d instead of %d: it gets a new one by itself; if this persists, enroll the "+
				"host again",
			*agent.Epoch, host.Spec.Epoch))
	}
	return &c
}

// outdated is the advice about an agent that does not support epochs, or could not get a token for one.
const outdated = "the agent has no token for the host's epoch: update capstan-agent on the host; if it is up to " +
	"date, read its log"

// inUseAdvice returns an addition to the message of a host in use whose agent can't renew its token and must be
// updated.
func inUseAdvice(host *infrav1.CapstanHost) string {
	if host.Spec.Supplier != "" || host.Status.Agent == nil || host.Status.Agent.Epoch != nil {
		return ""
	}
	return "; " + outdated
}
