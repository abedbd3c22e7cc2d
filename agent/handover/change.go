package handover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/internal/failpoint"
)

// ask finds out whether the host has moved, and changes sides if it has. Meanwhile it keeps the token for the target
// fresh, because the source may be silent for longer than the token is valid. If the source's answer shows another
// offer, ask acts on it at once, because the watch may be broken for a long time. It does not record this answer as the
// watch's answer, because a call can succeed while the watch is broken.
func (f *Follower) ask(ctx context.Context, next *Enrolment) (changed bool, again time.Duration, err error) {
	host, err := f.Source.Look(ctx)
	said := answerOf(host, err)
	refused := f.refusing(said)
	if offer := offerOf(host); said == present && offer != next.Offer {
		again, err = f.follow(ctx, decide(said, offer, next.Offer), host, next)
		return false, again, err
	}
	next, stale := f.fresh(ctx, next)
	switch said {
	case present: // ask until the watch shows the host: a new watch misses an earlier deletion
		if stale == nil {
			f.standing(next, nil)
		}
		return false, time.Second, stale
	case silent:
		return false, 0, errors.Join(err, stale)
	case leaving:
		// Leave only once the source has the report that the offer is accepted. Without this report, a host that
		// clusterctl has marked would block clusterctl's next move forever.
		if !host.OfferAccepted() {
			return false, 0, errors.Join(
				errors.New("the management cluster does not know that the agent has accepted the offer"), stale)
		}
	}
	there, err := f.look(ctx, next)
	if err != nil {
		return false, 0, fmt.Errorf("the target: %w", err)
	}
	all, err := carriedMachines(f.Config.JournalDir())
	if err != nil {
		return false, 0, err
	}
	if err := mayChange(said, refused, there, all); err != nil {
		return false, 0, err
	}
	failpoint.Hit("changing sides")
	if err := f.Store.Change(); err != nil {
		return false, 0, err
	}
	failpoint.Hit("changed sides")
	f.Log.Info("the host and its agent have moved", "to", next.Server, "claim", there.Spec.Claim.ProviderID)
	return true, 0, nil
}
