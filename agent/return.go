package agent

import (
	"context"
	"errors"
	"time"

	"github.com/capstan-dev/capstan/agent/enroll"
	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/internal/enrolment"
)

// comeBack gets a new token whenever the server refuses all tokens of the host, until ctx ends. That happens after the
// host was off or asleep for longer than the tokens are valid. The plane decides whether this is still the same host.
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
			a.log.Warn("the host could not return", "error", err, "advice", returnAdvice(err))
		}
		// Wait after a success too, so that tokens that the server refuses at once are not requested endlessly.
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
	a.log.Info("the host has returned: its token had expired, and it got a new one")
	return nil
}

// returnAdvice returns what an administrator can do about a failed return.
func returnAdvice(err error) string {
	var refusal *enrolment.Refusal
	if errors.As(err, &refusal) && !refusal.Retry {
		return "enroll the host again (docs/owned-hosts.md)"
	}
	return "the agent retries"
}
