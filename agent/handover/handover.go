package handover

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/agent/config"
	"github.com/capstan-dev/capstan/agent/report"
	"github.com/capstan-dev/capstan/agent/rest"
	"github.com/capstan-dev/capstan/agent/token"
	"github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/backoff"
)

// Source is the management cluster that the agent works for.
type Source interface {
	// Look returns the current state of the host, or nil if the API server says that it does not exist.
	Look(ctx context.Context) (*v1beta2.CapstanHost, error)
	// Offer returns the offer that was made to the host.
	Offer(ctx context.Context) (rest.Offer, error)
}

// Options are what a Follower needs. All are required.
type Options struct {
	// Config is the effective configuration. It belongs to the source.
	Config config.Config
	// Version is the agent's version.
	Version string
	Store   Store
	Source  Source
	Report  *report.Reporter
	Log     *slog.Logger
}

// Follower lets the agent follow when its host moves to another management cluster: it accepts the offer, waits, and
// finds out when the host has moved. Everything that a Follower knows is on disk, or the Follower can ask for it again.
type Follower struct {
	Options

	mu   sync.Mutex
	said answer               // the watch's answer
	host *v1beta2.CapstanHost // nil unless it is present
	// refused is when the source's current series of refusals began, or zero if there is none. Silence and any other
	// answer end a series.
	refused time.Time
	wake    chan struct{} // holds at most one value

	before string // the last text that was logged
}

// New returns a Follower. If the agent accepted an offer earlier, New reports that. If the agent's token for the target
// must be renewed first, New reports this instead, because the target may reject the token.
func New(o Options) *Follower {
	f := &Follower{Options: o, said: silent, wake: make(chan struct{}, 1)}
	if next, err := f.Store.Next(); err == nil && next != nil {
		var why error
		if token.RenewIn(next.Token, time.Now()) <= 0 {
			why = errors.New("the agent's token for the target must be renewed first")
		}
		f.standing(next, why)
	}
	return f
}

// See records what a watch shows; nil if the host was deleted.
func (f *Follower) See(host *v1beta2.CapstanHost) { f.set(answerOf(host, nil), host) }

// Unsee forgets what the watch showed, because a new watch begins. A new watch shows the host if the host exists, and
// nothing if it does not.
func (f *Follower) Unsee() { f.set(silent, nil) }

func (f *Follower) set(said answer, host *v1beta2.CapstanHost) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if said != silent { // a new watch says nothing yet
		f.refused = time.Time{}
	}
	if said == f.said && offerOf(host) == offerOf(f.host) {
		f.host = host
		return
	}
	f.said, f.host = said, host
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// refusing records an answer and returns how long the source has refused the agent without interruption.
func (f *Follower) refusing(said answer) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case said != refuses:
		f.refused = time.Time{}
		return 0
	case f.refused.IsZero():
		f.refused = time.Now()
	}
	return time.Since(f.refused)
}

func offerOf(host *v1beta2.CapstanHost) string {
	if host == nil {
		return ""
	}
	return host.Offer()
}

// Run returns true when the agent has changed sides and must continue with its new enrolment. It returns false when ctx
// ends.
func (f *Follower) Run(ctx context.Context) bool {
	pauses := backoff.Backoff{First: 300 * time.Millisecond, Max: 15 * time.Second, Spread: backoff.FleetSpread}
	for ctx.Err() == nil {
		changed, again, err := f.pass(ctx)
		if changed {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if err != nil {
			f.logWait(err.Error())
			again = pauses.Next()
		} else {
			pauses.Reset()
		}
		var timer <-chan time.Time
		if again > 0 {
			timer = time.After(again)
		}
		select {
		case <-ctx.Done():
		case <-f.wake:
		case <-timer:
		}
	}
	return false
}

// logWait logs what keeps the agent waiting, whenever that changes.
func (f *Follower) logWait(why string) {
	if why != f.before {
		f.Log.Info("the hand-over waits", "why", why)
	}
	f.before = why
}

// pass does what is due now. again is the time until the next pass, unless something happens earlier; 0 means no limit.
func (f *Follower) pass(ctx context.Context) (changed bool, again time.Duration, err error) {
	next, err := f.Store.Next()
	if err != nil {
		return false, 0, err
	}
	f.mu.Lock()
	said, host := f.said, f.host
	f.mu.Unlock()
	accepted := ""
	if next != nil {
		accepted = next.Offer
	}
	do := decide(said, offerOf(host), accepted)
	if do == ask {
		return f.ask(ctx, next)
	}
	if do == nothing && said == present {
		f.report(nil)
	}
	again, err = f.follow(ctx, do, host, next)
	return false, again, err
}

// follow acts on the offer of a host that is present.
func (f *Follower) follow(
	ctx context.Context, do action, host *v1beta2.CapstanHost, next *Enrolment,
) (again time.Duration, err error) {
	switch do {
	case accept:
		return f.accept(ctx, host)
	case keep:
		return f.keep(ctx, next)
	case forget:
		if err := f.Store.Forget(); err != nil {
			return 0, err
		}
		f.Log.Info("the offer was called off", "offer", next.Offer)
		f.report(nil)
	}
	return 0, nil
}

// report reports the agent's response to an offer; nil means that there is none.
func (f *Follower) report(about *v1beta2.HandOverReport) {
	f.Report.Update(true, func(r *v1beta2.AgentReport) { r.HandOver = about })
}

// standing reports that the agent follows an offer that it has accepted, or, if why is not nil, that it no longer does.
func (f *Follower) standing(next *Enrolment, why error) {
	if why == nil {
		f.report(&v1beta2.HandOverReport{Offer: next.Offer, Accepted: true})
		return
	}
	f.report(&v1beta2.HandOverReport{Offer: next.Offer, Message: report.Cut(why.Error(), report.MessageLimit)})
}
