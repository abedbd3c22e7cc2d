package machine

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/claim"
	"github.com/capstan-dev/capstan/provider/failure"
	"github.com/capstan-dev/capstan/provider/patch"
	"github.com/capstan-dev/capstan/provider/pause"
	"github.com/capstan-dev/capstan/provider/readyevent"
	"github.com/capstan-dev/capstan/provider/step"
)

// writeStatus writes the whole status in one patch if it differs (IM-56). err is the error of the steps; the status
// shows it only after it has persisted for a while. writeStatus returns how soon the next pass must follow; 0 means
// that none is needed.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope, err error) (time.Duration, error) {
	if s.gone {
		r.failures.Forget(client.ObjectKeyFromObject(s.capstan))
		return 0, nil
	}
	before := s.capstan.DeepCopy()
	if s.obstacle != nil {
		err = nil // the failed step has already described the error
	}
	failed, write := r.failures.Judge(r.Clock, s.capstan, err)
	s.failed = failed
	switch {
	case s.paused != "":
		conditions.Set(s.capstan, pause.Condition(s.paused)) // set nothing else: IM-64
	case !write:
		return 0, nil
	case s.obstacle != nil && s.obstacle.Brief && step.Fresh(s.capstan, r.Clock.Now()):
		return step.Settle, nil
	default:
		setStatus(s)
	}
	patch.MakeRoom(s.capstan, infrav1.ReadyCondition, infrav1.HostClaimedCondition, infrav1.BootstrappedCondition,
		infrav1.HostOnlineCondition, infrav1.ReconciledCondition, infrav1.PausedCondition)
	if err := patch.Status(ctx, r.Client, before, s.capstan, patch.Locked); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	readyevent.Record(r.Recorder, before, s.capstan)
	r.Metrics.Machine(before, s.capstan, s.host)
	return 0, nil
}

// setStatus updates the status with what the pass found out. It rebuilds the status from the specs and the host, with
// two exceptions: once provisioned is true, it stays true (IM-20), and the addresses and the zone of a lost host stay.
func setStatus(s *scope) {
	status := &s.capstan.Status
	if s.running {
		conditions.Set(s.capstan, pause.Condition(""))
	}
	decided := decide(s)
	for _, c := range decided {
		conditions.Set(s.capstan, c)
	}
	failure.Set(s.capstan, s.failed)
	if s.host != nil && !leaving(s) && !slices.ContainsFunc(decided, isOnline) {
		conditions.Delete(s.capstan, infrav1.HostOnlineCondition)
	}
	if s.host != nil {
		status.Host = s.host.Name
		status.FailureDomain = s.host.Spec.Zone
		if a := claim.Address(s.host); a != "" && s.capstan.Spec.ProviderID != "" {
			status.Addresses = addressesOf(s.host, a)
		}
	}
	if s.done {
		status.Initialization.Provisioned = ptr.To(true)
	}
}

// addressesOf returns the addresses of the machine that has the host (IM-27): its host name, the address that the agent
// reports, and those in the host's spec.
func addressesOf(host *infrav1.CapstanHost, internal string) clusterv1.MachineAddresses {
	found := clusterv1.MachineAddresses{
		{Type: clusterv1.MachineHostName, Address: host.Spec.Claim.Hostname},
		{Type: clusterv1.MachineInternalIP, Address: internal},
	}
	for _, a := range host.Spec.Addresses {
		found = append(found, clusterv1.MachineAddress{Type: clusterv1.MachineAddressType(a.Type), Address: a.Address})
	}
	return found
}

// decide returns the conditions of the machine, without Paused and Reconciled. Conditions that it does not return stay
// unchanged.
func decide(s *scope) []metav1.Condition {
	if leaving(s) {
		ready := no(infrav1.ReadyCondition, infrav1.DeletingReason, s.waiting)
		if s.failed != nil {
			ready.Message = s.failed.Message
		}
		return []metav1.Condition{ready}
	}
	var found []metav1.Condition
	switch {
	case s.host != nil:
		found = append(found, yes(infrav1.HostClaimedCondition, infrav1.HostClaimedReason))
		// Without a provider id, the failed step may be one that acts on the agent's report. The next pass must not assume
		// that this step is done.
		if s.failed == nil || s.capstan.Spec.ProviderID != "" {
			found = append(found, bootstrapped(s))
		}
		if c := online(s); c != nil {
			found = append(found, *c)
		}
	case s.lost != "":
		found = append(found,
			no(infrav1.HostClaimedCondition, infrav1.HostGoneReason, s.lost),
			no(infrav1.HostOnlineCondition, infrav1.HostGoneReason, s.lost))
	case s.obstacle != nil:
		found = append(found, no(infrav1.HostClaimedCondition, s.obstacle.Reason, s.obstacle.Message))
	case s.failed == nil:
		return nil // the pass ended before it found out
	case hadHost(s.capstan) == "":
		found = append(found, no(infrav1.HostClaimedCondition, s.failed.Reason, s.failed.Message))
	}
	return append(found, ready(s, found)...)
}

// ready returns Ready, which summarizes the other conditions or says why the pass failed. A failed pass does not stop a
// running instance, so once there is a provider id, it no longer affects Ready.
func ready(s *scope, found []metav1.Condition) []metav1.Condition {
	instance := s.capstan.Spec.ProviderID != ""
	switch {
	case s.failed == nil, instance && s.host != nil:
		return []metav1.Condition{summary(found)}
	case instance && conditions.Has(s.capstan, infrav1.ReadyCondition):
		return nil
	default:
		return []metav1.Condition{no(infrav1.ReadyCondition, s.failed.Reason, s.failed.Message)}
	}
}

// summary returns Ready. It is True if all conditions are True; if not, it has the reason of the first condition that
// is not True (IM-30, IM-31).
func summary(found []metav1.Condition) metav1.Condition {
	for _, c := range found {
		if c.Status != metav1.ConditionTrue {
			c.Type = infrav1.ReadyCondition
			c.LastTransitionTime = metav1.Time{}
			return c
		}
	}
	return yes(infrav1.ReadyCondition, infrav1.ReadyReason)
}

func bootstrapped(s *scope) metav1.Condition {
	host := s.host.Name
	report := claim.Bootstrap(s.host)
	switch {
	case s.capstan.Spec.ProviderID != "":
		return yes(infrav1.BootstrappedCondition, infrav1.BootstrapSucceededReason)
	case report != nil && report.Phase == infrav1.BootstrapFailed:
		return no(infrav1.BootstrappedCondition, infrav1.BootstrapFailedReason, bootstrapFailure(host, report))
	default:
		// This condition doesn't show the progress, because each step would cost a write. The host's phase, conditions and
		// status.agent.bootstrap show the progress.
		return no(infrav1.BootstrappedCondition, infrav1.BootstrappingReason,
			fmt.Sprintf("host %s is starting and running the bootstrap data; CapstanHost %s shows its progress", host, host))
	}
}

// bootstrapFailure returns the message about a failed bootstrap.
func bootstrapFailure(host string, report *infrav1.BootstrapReport) string {
	where := ""
	if report.Step != "" {
		where = " at " + report.Step
	}
	what := ""
	if report.Message != "" {
		what = ": " + report.Message
	}
	return fmt.Sprintf("the bootstrap data failed on host %s%s%s; it is not retried: delete the Machine, and its owner "+
		"replaces it", host, where, what)
}

// online returns the host's condition HostOnline for the machine. Until the bootstrap data has run, it returns a
// condition only if the heartbeat stopped: being off, powering on and starting the agent are all normal then. An agent
// that has reported a successful bootstrap counts as online even before a second heartbeat proves it.
func online(s *scope) *metav1.Condition {
	c := conditions.Get(s.host, infrav1.HostOnlineCondition)
	switch {
	case s.capstan.Spec.ProviderID == "" && (c == nil || c.Reason != infrav1.HostOfflineReason):
		return nil
	case (c == nil || c.Reason == infrav1.HostStartingReason || c.Reason == infrav1.HostOffReason) && succeeded(s.host):
		online := yes(infrav1.HostOnlineCondition, infrav1.HostOnlineReason)
		return &online
	case c == nil:
		return &metav1.Condition{
			Type: infrav1.HostOnlineCondition, Status: metav1.ConditionUnknown, Reason: infrav1.HostStartingReason,
			Message: fmt.Sprintf("it is not known yet whether host %s is online", s.host.Name),
		}
	default:
		return &metav1.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}
	}
}

// succeeded reports whether the agent says that the bootstrap data of the host's claim ran successfully.
func succeeded(host *infrav1.CapstanHost) bool {
	report := claim.Bootstrap(host)
	return report != nil && report.Phase == infrav1.BootstrapSucceeded
}

func isOnline(c metav1.Condition) bool { return c.Type == infrav1.HostOnlineCondition }

func yes(kind, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason}
}

func no(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}
