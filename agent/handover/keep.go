package handover

import (
	"context"
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/agent/token"
)

// keep keeps the token for the target fresh until the host moves.
func (f *Follower) keep(ctx context.Context, next *Enrolment) (again time.Duration, err error) {
	if wait := token.RenewIn(next.Token, time.Now()); wait > 0 {
		f.standing(next, nil)
		return wait, nil
	}
	if next, err = f.fresh(ctx, next); err != nil {
		return 0, err
	}
	return max(time.Minute, token.RenewIn(next.Token, time.Now())), nil
}

// fresh renews next's token if a renewal is due, and returns the resulting enrolment. After a renewal, the agent's
// report says whether the agent still follows the offer. If there is an error, the enrolment is unchanged.
func (f *Follower) fresh(ctx context.Context, next *Enrolment) (*Enrolment, error) {
	if token.RenewIn(next.Token, time.Now()) > 0 {
		return next, nil
	}
	renewed := *next
	var err error
	if renewed.Token, err = f.renewed(ctx, next); err != nil {
		err = fmt.Errorf("the target: %w", err)
	} else {
		err = f.Store.Prepare(renewed)
	}
	switch {
	case err == nil:
		f.standing(&renewed, nil)
		return &renewed, nil
	case ctx.Err() == nil:
		f.standing(next, without(next.Token, lapsed(err, next.Token, time.Now())))
	}
	return next, without(next.Token, err)
}
