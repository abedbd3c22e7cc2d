package host

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

// DefaultUnlinkedTimeout is longer than moving a large cluster takes.
const DefaultUnlinkedTimeout = time.Hour

// relink is how often a claim without a Cluster is checked, because a silent host starts no passes.
const relink = time.Minute

// unlinked describes a claim whose machine or Cluster is missing.
type unlinked struct {
	what   string    // what is missing
	wayOut string    // what an administrator can do
	since  time.Time // when it was first seen to be missing
	left   bool      // it has been missing for longer than the timeout
}

// link finds out whether the claim belongs to a Cluster, and if not, since when (contract rule SG-05). We mark such a
// claim but never release it: what is missing may still arrive, and cleaning can't be undone. The time starts over when
// the host moves to another management cluster, because a move drops its status.
func (r *Reconciler) link(ctx context.Context, s *scope) (step.Answer, error) {
	found, err := r.missing(ctx, s)
	if err != nil || found == nil {
		return step.Next(), err
	}
	found.since = r.Clock.Now()
	if c := conditions.Get(s.host, infrav1.LinkedCondition); c != nil && c.Status == metav1.ConditionFalse {
		found.since = c.LastTransitionTime.Time
	}
	rest := r.UnlinkedTimeout - r.Clock.Since(found.since)
	found.left = rest <= 0
	if rest <= 0 || rest > relink {
		rest = relink
	}
	s.sooner(rest)
	s.unlinked = found
	return step.Next(), nil
}

// missing returns which of CapstanMachine, Machine and Cluster the claim lacks. It returns nil if the claim lacks none,
// or if that is unknown because the machine is paused.
func (r *Reconciler) missing(ctx context.Context, s *scope) (*unlinked, error) {
	c := s.host.Spec.Claim
	if c == nil || c.Released {
		return nil, nil
	}
	if s.orphaned {
		return &unlinked{
			what:   fmt.Sprintf("CapstanMachine %s claims the host but does not exist", c.Machine),
			wayOut: "if it is gone for good, set spec.claim.released: true to have the host cleaned",
		}, nil
	}
	machine := &infrav1.CapstanMachine{}
	key := types.NamespacedName{Namespace: s.host.Namespace, Name: c.Machine}
	if err := r.Client.Get(ctx, key, machine); err != nil {
		return nil, client.IgnoreNotFound(err) // the next pass finds that the machine is gone
	}
	if annotations.HasPaused(machine) {
		return nil, nil
	}
	wayOut := fmt.Sprintf("delete CapstanMachine %s to have the host cleaned", c.Machine)
	owner, err := util.GetOwnerMachine(ctx, r.Client, machine.ObjectMeta)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading the owner of CapstanMachine %s: %w", c.Machine, err)
	case owner == nil || err != nil:
		what := fmt.Sprintf("CapstanMachine %s claims the host, but no Machine owns it", c.Machine)
		return &unlinked{what: what, wayOut: wayOut}, nil
	}
	_, err = util.GetClusterByName(ctx, r.Client, s.host.Namespace, c.Cluster)
	switch {
	case apierrors.IsNotFound(err):
		what := fmt.Sprintf("Cluster %s of CapstanMachine %s claims the host but does not exist", c.Cluster, c.Machine)
		return &unlinked{what: what, wayOut: wayOut}, nil
	case err != nil:
		return nil, fmt.Errorf("reading Cluster %s: %w", c.Cluster, err)
	}
	return nil, nil
}

// judgeLink returns condition Linked for a claim without a Cluster. The condition's transition time is when the
// controller first saw that something is missing.
func judgeLink(u *unlinked, timeout time.Duration) metav1.Condition {
	c := no(infrav1.LinkedCondition, infrav1.UnlinkedReason, u.what)
	c.LastTransitionTime = metav1.NewTime(u.since)
	if u.left {
		c.Reason = infrav1.LeftBehindReason
		c.Message = fmt.Sprintf("for more than %s: %s; %s", timeout, u.what, u.wayOut)
	}
	return c
}
