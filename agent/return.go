package agent

import (
	"context"
	"errors"
	"time"

	"github.com/capstan-dev/capstan/agent/enroll"
	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/internal/enrolment"
)

// comeBack gets a new token when the server refuses all that the host has, until ctx ends: it was off, or asleep, for
// longer than they live. It only asks: whether this is still the host is decided by the plane.
func (a *agent) comeBack(ctx context.Context) {
	if a.config.Enrolment == "" {
		return
	}
	pauses := backoff.Backoff{First: time.Second, Max: time.Hour, Spread: backoff.FleetSpread}
	for ctx.Err() == nil {
		last, refused := a.tokens.Last()
		if !refused {
			pauses.Reset()
			select {
			case <-ctx.Done():
			case <-a.tokens.Refused():
			}
			continue
		}
		if err := a.comeBackNow(ctx, last); err != nil && ctx.Err() == nil {
			a.log.Warn("the host could not come back", "error", err, "advice", returnAdvice(err))
		}
		// Also after a success: what the server refuses at once is not asked for without end.
		_ = pauses.Wait(ctx)
	}
}

func (a *agent) comeBackNow(ctx context.Context, last string) error {
	text, err := enroll.Return(ctx, a.config, last, a.version)
	if err != nil {
		return err
	}
	if err := a.tokens.Keep(text); err != nil {
		return err
	}
	a.log.Info("the host has come back: its token had expired, and it got another one")
	return nil
}

// returnAdvice says what a person can do about an error of a return.
func returnAdvice(err error) string {
	var refusal *enrolment.Refusal
	if errors.As(err, &refusal) && !refusal.Retry {
		return "enroll the host again (docs/owned-hosts.md)"
	}
	return "it is tried again"
}
