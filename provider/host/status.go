package host

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// facts holds what a pass found out in addition to the host itself.
type facts struct {
	live     liveness
	orphaned bool
	// unlinked is not nil if the claim belongs to no Cluster.
	unlinked *unlinked
	obstacle *step.Obstacle
	// drain is what a drain waits for.
	drain *step.Obstacle
	// versions are the Kubernetes versions that the supplier offers.
	versions []string
	timeout  time.Duration
	// unlinkedTimeout is how long a claim may be without a Cluster.
	unlinkedTimeout time.Duration
}

// writeStatus writes this controller's part of the status in one patch if it differs. err is the error of the steps;
// the status shows it only after it has persisted for a while.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope, err error) error {
	if s.gone {
		r.failures.Forget(client.ObjectKeyFromObject(s.host))
		return nil
	}
	before := s.host.DeepCopy()
	if s.obstacle != nil {
		err = nil // the failed step has already described the error
	}
	failed, write := r.failures.Judge(r.Clock, s.host, err)
	s.failed = failed
	switch {
	case s.paused != "":
		conditions.Set(s.host, pause.Condition(s.paused))
	case !write:
		return nil
	case s.failed != nil:
		setFailed(s)
	default:
		conditions.Delete(s.host, clusterv1.PausedCondition)
		failure.Set(s.host, nil)
		setStatus(s.host, r.facts(s))
	}
	patch.MakeRoom(s.host, infrav1.ReadyCondition, infrav1.HostOnlineCondition, infrav1.CleanCondition,
		infrav1.DrainedCondition, infrav1.LinkedCondition, infrav1.ReconciledCondition, infrav1.PausedCondition)
	if err := patch.Status(ctx, r.Client, before, s.host, patch.Locked); err != nil {
		return client.IgnoreNotFound(err)
	}
	readyevent.Record(r.Recorder, before, s.host)
	r.Metrics.Host(before, s.host)
	return nil
}

// setFailed sets condition Reconciled after a failed pass. If Ready isn't True, setFailed also sets Ready, with the
// reason of the failure. The pass does not know enough to set other conditions.
func setFailed(s *scope) {
	failure.Set(s.host, s.failed)
	if !conditions.IsTrue(s.host, infrav1.ReadyCondition) {
		conditions.Set(s.host, no(infrav1.ReadyCondition, s.failed.Reason, s.failed.Message))
	}
}

func (r *Reconciler) facts(s *scope) facts {
	f := facts{
		live: s.live, orphaned: s.orphaned, unlinked: s.unlinked, obstacle: s.obstacle, drain: s.drain,
		timeout: r.HeartbeatTimeout, unlinkedTimeout: r.UnlinkedTimeout,
	}
	if r.supplies(s.host) {
		f.versions = r.Supplier.Versions()
	}
	return f
}

// maxVersions is the limit of status.kubernetesVersions.
const maxVersions = 64

// setStatus sets this controller's part of the host's status: the phase, the versions, and conditions HostOnline,
// Clean, Linked, Drained and Ready. The result depends only on the host and the facts. When a supplied host is off,
// setStatus drops the report of its agent, because that computer no longer exists.
func setStatus(host *infrav1.CapstanHost, f facts) {
	off := host.Spec.Supplier != "" && host.Spec.Claim == nil
	if off {
		host.Status.Agent = nil
	}
	online := judgeOnline(host, off, f)
	clean := judgeClean(host)
	phase, ready := judgeReady(host, off, online, clean, f)
	host.Status.Phase = phase
	host.Status.KubernetesVersions = versions(host, f)
	if f.unlinked == nil {
		conditions.Delete(host, infrav1.LinkedCondition)
	} else {
		conditions.Set(host, judgeLink(f.unlinked, f.unlinkedTimeout))
	}
	if host.Spec.Drains() {
		conditions.Set(host, judgeDrained(host, clean, f.drain))
	} else {
		conditions.Delete(host, infrav1.DrainedCondition)
	}
	for _, c := range []metav1.Condition{online, clean, ready} {
		conditions.Set(host, c)
	}
}

func versions(host *infrav1.CapstanHost, f facts) []string {
	offered := f.versions
	if agent := host.Status.Agent; agent != nil && len(agent.KubernetesVersions) > 0 {
		offered = agent.KubernetesVersions
	}
	return offered[:min(len(offered), maxVersions)]
}

func judgeOnline(host *infrav1.CapstanHost, off bool, f facts) metav1.Condition {
	before := conditions.Get(host, infrav1.HostOnlineCondition)
	switch {
	case off:
		return no(
			infrav1.HostOnlineCondition,
			infrav1.HostOffReason,
			"powered off until a machine claims it",
		)
	case f.live == alive:
		return yes(infrav1.HostOnlineCondition, infrav1.HostOnlineReason, "")
	case f.live == silent:
		return no(
			infrav1.HostOnlineCondition,
			infrav1.HostOfflineReason,
			fmt.Sprintf(
				"no heartbeat from the agent for more than %s: check the host, its network and capstan-agent",
				f.timeout,
			),
		)
	case before != nil && (before.Reason == infrav1.HostOnlineReason || before.Reason == infrav1.HostOfflineReason):
		return metav1.Condition{
			Type:    before.Type,
			Status:  before.Status,
			Reason:  before.Reason,
			Message: before.Message,
		}
	default:
		return no(infrav1.HostOnlineCondition, infrav1.HostStartingReason, "no heartbeat from the agent yet")
	}
}

func judgeClean(host *infrav1.CapstanHost) metav1.Condition {
	if carried, found := judgeCarried(host); found {
		return carried
	}
	c := host.Spec.Claim
	switch {
	case c == nil:
		return yes(infrav1.CleanCondition, infrav1.CleanReason, "")
	case !c.Released:
		return no(infrav1.CleanCondition, infrav1.InUseReason, "")
	}
	if clean, found := judgeOwned(host); found {
		return clean
	}
	if claim.Abandoned(host) {
		return no(infrav1.CleanCondition, infrav1.AbandonedReason, fmt.Sprintf(
			"abandoned after machine %s, and not clean: it returns to use when its agent has cleaned it; if the computer is "+
				"gone, delete this CapstanHost",
			c.Machine,
		))
	}
	return no(infrav1.CleanCondition, infrav1.CleaningReason, fmt.Sprintf("being cleaned after machine %s", c.Machine))
}

// judgeOwned returns condition Clean for an owned host that needs somebody's attention after its cleaning: it has
// leftovers, was not compared with the baseline, or must be reinstalled. It reports false for other hosts.
func judgeOwned(host *infrav1.CapstanHost) (metav1.Condition, bool) {
	if host.Spec.Supplier != "" {
		return metav1.Condition{}, false
	}
	c := host.Spec.Claim
	accept := fmt.Sprintf("kubectl annotate capstanhost -n %s %s %s=%s",
		host.Namespace, host.Name, infrav1.AcceptAnnotation, c.ProviderID)
	switch claim.Judge(host) {
	case claim.Left:
		return no(infrav1.CleanCondition, infrav1.LeftoversFoundReason, "cleaning left behind: "+
			shorten(
				claim.Cleaning(host).Leftovers,
			)+"; remove it on the host, and the agent cleans again; or reinstall the host, or accept the leftovers, and "+
			"confirm: "+accept), true
	case claim.NotCompared:
		return no(
			infrav1.CleanCondition,
			infrav1.NotComparedReason,
			fmt.Sprintf("nothing of a Kubernetes node is left after machine %s, but the agent did not compare the host with "+
				"its earlier state: update capstan-agent for the next machines; then reinstall or inspect the host, and confirm: "+
				"%s", c.Machine, accept),
		), true
	case claim.ToReimage:
		return no(
			infrav1.CleanCondition,
			infrav1.ReimageNeededReason,
			fmt.Sprintf("released by machine %s: reinstall and enroll the host, then confirm: %s", c.Machine, accept),
		), true
	}
	return metav1.Condition{}, false
}

// shorten lists the first leftovers and counts the others.
func shorten(leftovers []string) string {
	const most = 5
	if len(leftovers) <= most {
		return strings.Join(leftovers, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(leftovers[:most], ", "), len(leftovers)-most)
}

// judgeReady returns the phase and condition Ready.
func judgeReady(
	host *infrav1.CapstanHost,
	off bool,
	online, clean metav1.Condition,
	f facts,
) (infrav1.HostPhase, metav1.Condition) {
	phase, ready := phaseOf(host, off, online, clean)
	switch {
	case f.obstacle != nil:
		ready = no(infrav1.ReadyCondition, f.obstacle.Reason, f.obstacle.Message)
	case f.unlinked != nil && f.unlinked.left:
		ready = no(infrav1.ReadyCondition, infrav1.LeftBehindReason, judgeLink(f.unlinked, f.unlinkedTimeout).Message)
	case f.orphaned:
		ready = no(infrav1.ReadyCondition, infrav1.MachineGoneReason, fmt.Sprintf(
			"CapstanMachine %s claims the host but does not exist; if it is gone for good, set spec.claim.released: true",
			host.Spec.Claim.Machine,
		))
	case !host.DeletionTimestamp.IsZero():
		ready = no(infrav1.ReadyCondition, infrav1.DeletingReason, "")
		if c := host.Spec.Claim; c != nil {
			ready.Message = fmt.Sprintf(
				"claimed by CapstanMachine %s: the host is deleted after that machine",
				c.Machine,
			)
		}
	}
	return phase, ready
}

func phaseOf(
	host *infrav1.CapstanHost,
	off bool,
	online, clean metav1.Condition,
) (infrav1.HostPhase, metav1.Condition) {
	c, report := host.Spec.Claim, claim.Bootstrap(host)
	offline := online.Reason == infrav1.HostOfflineReason
	fenced := judgeEpoch(host)
	isReady := func(reason, message string) metav1.Condition { return yes(infrav1.ReadyCondition, reason, message) }
	notReady := func(reason, message string) metav1.Condition { return no(infrav1.ReadyCondition, reason, message) }
	switch {
	case off:
		return infrav1.HostOff, isReady(infrav1.ReadyReason, "")
	case clean.Reason == infrav1.LeftoversFoundReason, clean.Reason == infrav1.AbandonedReason,
		clean.Reason == infrav1.NotComparedReason, clean.Reason == infrav1.ReimageNeededReason:
		return infrav1.HostQuarantined, notReady(clean.Reason, clean.Message)
	case clean.Reason == infrav1.CleaningReason, clean.Reason == infrav1.CarriesMachineReason:
		return infrav1.HostCleaning, notReady(clean.Reason, clean.Message)
	case c == nil && host.Spec.Maintenance != "":
		return infrav1.HostMaintenance, notReady(infrav1.InMaintenanceReason, inMaintenance(host, online))
	case offline:
		return infrav1.HostOffline, notReady(online.Reason, online.Message)
	case c == nil && online.Status == metav1.ConditionTrue && fenced != nil:
		return infrav1.HostEnrolling, *fenced
	case c == nil && online.Status == metav1.ConditionTrue:
		return infrav1.HostAvailable, isReady(infrav1.ReadyReason, "")
	case c == nil:
		return infrav1.HostEnrolling, notReady(online.Reason, online.Message)
	case report == nil:
		return infrav1.HostClaimed, notReady(
			infrav1.HostStartingReason,
			fmt.Sprintf("claimed by machine %s, whose bootstrap has not started", c.Machine),
		)
	case report.Phase == infrav1.BootstrapSucceeded:
		message := fmt.Sprintf("in use by machine %s", c.Machine) + inUseAdvice(host)
		return infrav1.HostInUse, isReady(infrav1.InUseReason, message)
	case report.Phase == infrav1.BootstrapFailed:
		return infrav1.HostBootstrapping, notReady(
			infrav1.BootstrapFailedReason,
			fmt.Sprintf("the bootstrap of machine %s failed", c.Machine),
		)
	default:
		return infrav1.HostBootstrapping, notReady(
			infrav1.BootstrappingReason,
			fmt.Sprintf("running the bootstrap data of machine %s", c.Machine),
		)
	}
}

func yes(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

func no(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}
