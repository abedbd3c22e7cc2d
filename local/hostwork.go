package local

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/poll"
)

// work is what an administrator asks of a host. It is part of the spec of the CapstanHost, so GitOps and kubectl can
// set it too.
type work struct {
	// cordon keeps new machines off the host; drain also deletes the machine on it.
	cordon, drain bool
	// maintenance is the reason why the host is out of use for a while. Setting it drains the host.
	maintenance string
}

// maintenanceLength is the maximum length of that reason, in characters.
const maintenanceLength = 256

// CordonHost keeps new machines off a host. The machine on it stays.
func CordonHost(ctx context.Context, c client.Client, host client.ObjectKey) (*infrav1.CapstanHost, error) {
	return setWork(ctx, c, host, func(w *work) { w.cordon = true })
}

// UncordonHost puts a host back into use: it also ends a drain and a maintenance.
func UncordonHost(ctx context.Context, c client.Client, host client.ObjectKey) (*infrav1.CapstanHost, error) {
	return setWork(ctx, c, host, func(w *work) { *w = work{} })
}

// DrainHost deletes the machine on a host, so that it is replaced elsewhere, and keeps new ones away. WaitDrained waits
// until that is done.
func DrainHost(ctx context.Context, c client.Client, host client.ObjectKey) (*infrav1.CapstanHost, error) {
	return setWork(ctx, c, host, func(w *work) { w.cordon, w.drain = true, true })
}

// MaintainHost drains a host and records the reason. Once WaitDrained returns, the host may be switched off.
func MaintainHost(ctx context.Context, c client.Client, host client.ObjectKey, why string) (
	*infrav1.CapstanHost, error,
) {
	if n := len([]rune(why)); n == 0 || n > maintenanceLength {
		return nil, hint.Errorf("for example: --reason 'new disks'",
			"give a reason of 1 to %d characters", maintenanceLength)
	}
	return setWork(ctx, c, host, func(w *work) { w.cordon, w.maintenance = true, why })
}

// setWork changes what an administrator asks of a host.
func setWork(ctx context.Context, c client.Client, key client.ObjectKey, change func(*work)) (
	*infrav1.CapstanHost, error,
) {
	h, err := getHost(ctx, c, key)
	if err != nil {
		return nil, err
	}
	w := work{cordon: h.Spec.Unschedulable, drain: h.Spec.Drain, maintenance: h.Spec.Maintenance}
	change(&w)
	if w == (work{}) && !h.DeletionTimestamp.IsZero() {
		return nil, hint.Errorf("follow its progress: capstan host describe "+h.Name,
			"host %s is being removed, which can't be undone", h.Name)
	}
	before := h.DeepCopy()
	h.Spec.Unschedulable, h.Spec.Drain, h.Spec.Maintenance = w.cordon, w.drain, w.maintenance
	if err := c.Patch(ctx, h, client.MergeFrom(before)); err != nil {
		return nil, hint.Errorf("draining a host requires ClusterRole capstan-inventory in its namespace",
			"changing host %s: %w", h.Name, err)
	}
	return h, nil
}

// RemoveHost drains a host and deletes it. WaitRemoved waits until it is gone. RemoveHost refuses local hosts, which
// the plane would recreate.
func RemoveHost(ctx context.Context, c client.Client, key client.ObjectKey) (*infrav1.CapstanHost, error) {
	h, err := getHost(ctx, c, key)
	if err != nil {
		return nil, err
	}
	if h.Spec.Supplier != "" {
		return nil, hint.Errorf("change the number of local hosts: capstan up --hosts N",
			"host %s is a local host: the plane would replace it", h.Name)
	}
	if h.Spec.Claim != nil { // a host without a claim gets none while it is being deleted
		if h, err = DrainHost(ctx, c, key); err != nil {
			return nil, err
		}
	}
	if err := c.Delete(ctx, h, client.Preconditions{UID: &h.UID}); client.IgnoreNotFound(err) != nil {
		return nil, hint.Errorf("this requires ClusterRole capstan-inventory in its namespace",
			"removing host %s: %w", h.Name, err)
	}
	return h, nil
}

// WaitDrained waits until no machine claims the host. It calls the function waiting with a description of what it waits
// for.
func WaitDrained(ctx context.Context, c client.Reader, key client.ObjectKey, waiting func(string)) error {
	return waitForHost(ctx, c, key, waiting, func(h *infrav1.CapstanHost) bool {
		return meta.IsStatusConditionTrue(h.Status.Conditions, infrav1.DrainedCondition)
	})
}

// WaitRemoved waits until a host is gone. It calls the function waiting with a description of what it waits for.
func WaitRemoved(ctx context.Context, c client.Reader, key client.ObjectKey, waiting func(string)) error {
	err := waitForHost(ctx, c, key, waiting, func(*infrav1.CapstanHost) bool { return false })
	if errors.Is(err, errHostGone) {
		return nil
	}
	return err
}

// errHostGone says that the host was deleted while a call waited for it.
var errHostGone = errors.New("the host no longer exists")

func waitForHost(
	ctx context.Context, c client.Reader, key client.ObjectKey, waiting func(string),
	done func(*infrav1.CapstanHost) bool,
) error {
	last := ""
	err := poll.Until(ctx, func() (bool, error) {
		h := &infrav1.CapstanHost{}
		if err := c.Get(ctx, key, h); apierrors.IsNotFound(err) {
			return true, errHostGone
		} else if err != nil {
			return false, err
		}
		if last = WaitsFor(h); last != "" {
			waiting(last)
		}
		return done(h), nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return hint.Errorf("the host continues by itself; follow its progress: capstan host describe "+key.Name,
			"host %s still waits: %s", key.Name, last)
	}
	return err
}

// undecided lists the reasons of condition Clean that need a decision by an administrator.
var undecided = map[string]bool{
	infrav1.LeftoversFoundReason: true, infrav1.NotComparedReason: true, infrav1.ReimageNeededReason: true,
}

// WaitsFor says what a host waits for and, if an administrator has to act, which command to run; empty: it waits for
// nothing. Pure.
func WaitsFor(h *infrav1.CapstanHost) string {
	clean := meta.FindStatusCondition(h.Status.Conditions, infrav1.CleanCondition)
	drained := meta.FindStatusCondition(h.Status.Conditions, infrav1.DrainedCondition)
	ready := meta.FindStatusCondition(h.Status.Conditions, infrav1.ReadyCondition)
	released := h.Spec.Claim != nil && h.Spec.Claim.Released
	switch {
	case released && silent(h):
		return fmt.Sprintf("its agent, which does not report, to clean up after machine %s; if the computer is gone for "+
			"good: capstan host abandon %s", h.Spec.Claim.Machine, h.Name)
	case released && clean != nil && undecided[clean.Reason]:
		return fmt.Sprintf("your decision about the leftovers of machine %s: capstan host accept %s",
			h.Spec.Claim.Machine, h.Name)
	case released && h.Spec.Supplier != "":
		return fmt.Sprintf("its supplier to destroy it after machine %s", h.Spec.Claim.Machine)
	case released:
		return fmt.Sprintf("its agent to clean up after machine %s", h.Spec.Claim.Machine)
	case h.Spec.Drains() && drained == nil:
		return "the manager to reconcile it"
	case drained != nil && drained.Status != metav1.ConditionTrue:
		return drained.Message
	case !h.DeletionTimestamp.IsZero() && h.Spec.Claim != nil:
		return fmt.Sprintf("the deletion of machine %s: capstan host drain %s", h.Spec.Claim.Machine, h.Name)
	case !h.DeletionTimestamp.IsZero():
		return "the manager to remove its account"
	case h.Spec.Maintenance != "":
		return "the end of its maintenance: capstan host uncordon " + h.Name
	case ready == nil:
		return "the manager to reconcile it"
	case ready.Status != metav1.ConditionTrue:
		return ready.Message
	case h.Spec.Closed():
		return "you to put it back into use: capstan host uncordon " + h.Name
	case h.Spec.Claim == nil:
		return "a machine to claim it"
	default:
		return ""
	}
}

func silent(h *infrav1.CapstanHost) bool {
	c := meta.FindStatusCondition(h.Status.Conditions, infrav1.HostOnlineCondition)
	return c != nil && c.Reason == infrav1.HostOfflineReason
}

// getHost reads a host.
func getHost(ctx context.Context, c client.Reader, key client.ObjectKey) (*infrav1.CapstanHost, error) {
	h := &infrav1.CapstanHost{}
	if err := c.Get(ctx, key, h); apierrors.IsNotFound(err) {
		return nil, hint.Errorf("see: capstan host list", "there is no host %q", key.Name)
	} else if err != nil {
		return nil, hint.Errorf("run: capstan status", "reading host %s: %w", key.Name, err)
	}
	return h, nil
}
