package agent

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/agent/rest"
	"github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/internal/failpoint"
)

// renewPause is the longest time between two checks of whether the token is due for renewal: somebody may have put
// another token into the configuration.
const renewPause = time.Minute

// epochs passes the host's epoch (docs/adr/0023) from the watch to the function renew, which gets a token for that
// epoch.
type epochs struct {
	mu    sync.Mutex
	shown bool // whether the watch has shown an epoch
	epoch int64
	wake  chan struct{} // holds at most one value
}

func newEpochs() *epochs { return &epochs{wake: make(chan struct{}, 1)} }

// see records what the watch shows; nil if the host was deleted.
func (e *epochs) see(host *v1beta2.CapstanHost) {
	if host == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.shown && e.epoch == host.Spec.Epoch {
		return
	}
	e.shown, e.epoch = true, host.Spec.Epoch
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

func (e *epochs) get() (epoch int64, shown bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.epoch, e.shown
}

// renew keeps the token fresh, and bound to the host's present epoch, until ctx ends. It waits for the watch to show
// the epoch.
func (a *agent) renew(ctx context.Context) {
	pauses := backoff.Backoff{First: 300 * time.Millisecond, Max: 5 * time.Minute, Spread: backoff.FleetSpread}
	unbound := false // the management cluster has no epochs
	for ctx.Err() == nil {
		pause := renewPause
		epoch, shown := a.epochs.get()
		secret := v1beta2.EpochSecret(a.config.Host, epoch)
		wait := a.tokens.RenewIn()
		if a.tokens.Secret() != secret && !(unbound && epoch == 0) {
			wait = 0
		}
		switch {
		case !shown:
		case wait > 0:
			pauses.Reset()
			pause = min(pause, wait)
		default:
			var err error
			unbound, err = a.renewNow(ctx, secret, epoch)
			if err == nil && a.tokens.RenewIn() > 0 {
				continue
			}
			if err != nil && ctx.Err() == nil {
				a.log.Warn("the token was not renewed", "error", err, "advice", advice(err))
			}
			pause = pauses.Next()
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-a.epochs.wake:
			pauses.Reset()
		}
		timer.Stop()
	}
}

// renewNow gets a token bound to the Secret of an epoch, stores it, and reports the epoch. A management cluster that
// predates epochs has no such Secret, and all its hosts are in epoch 0. From such a cluster renewNow gets an unbound
// token.
func (a *agent) renewNow(ctx context.Context, secret string, epoch int64) (unbound bool, err error) {
	defer func() {
		if ctx.Err() == nil {
			a.metrics.Renewed(err == nil)
		}
	}()
	text, err := a.client.RequestToken(ctx, secret)
	if epoch == 0 && rest.IsCode(err, http.StatusNotFound) {
		if other, refused := a.client.RequestToken(ctx, ""); refused == nil {
			text, err, unbound = other, nil, true
		}
	}
	if err != nil {
		return false, err
	}
	failpoint.Hit("token granted")
	if err := a.tokens.Keep(text); err != nil {
		return false, err
	}
	failpoint.Hit("token kept")
	a.report.Update(true, func(r *v1beta2.AgentReport) { r.Epoch = a.tokenEpoch() })
	a.log.Info("the token was renewed", "epoch", epoch, "next", a.tokens.RenewIn().Round(time.Second))
	return unbound, nil
}

// tokenEpoch returns the epoch that the token in use is bound to, or nil if it is not bound.
func (a *agent) tokenEpoch() *int64 {
	digits, ok := strings.CutPrefix(a.tokens.Secret(), a.config.Host+v1beta2.EpochSecretInfix)
	epoch, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || epoch < 0 {
		return nil
	}
	return &epoch
}

// advice returns what an administrator can do about an error of the management cluster; empty if nothing.
func advice(err error) string {
	switch {
	case rest.IsCode(err, http.StatusUnauthorized):
		return "the agent's token has expired, or belongs to an earlier claim: enroll the host again (docs/owned-hosts.md)"
	case errors.Is(err, context.Canceled):
		return ""
	case rest.IsCode(err, http.StatusNotFound), rest.IsCode(err, http.StatusForbidden):
		return "the agent retries; if this persists, check the conditions of the CapstanHost"
	}
	return ""
}
