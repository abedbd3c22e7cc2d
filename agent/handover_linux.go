package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/agent/enrolment"
	"github.com/capstan-dev/capstan/agent/failpoint"
	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/agent/rest"
	"github.com/capstan-dev/capstan/agent/retry"
	"github.com/capstan-dev/capstan/agent/token"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// handover sees to it that the agent goes along when its host moves to another management cluster: it accepts the offer, waits, and finds out when the host has moved.
// All that it knows is on disk (package enrolment) or asked for again.
type handover struct {
	agent *agent
	store enrolment.Store

	mu      sync.Mutex
	said    word                 // by the watch
	host    *v1beta2.CapstanHost // nil unless it is there
	refused time.Time            // since when the management cluster has said nothing but that it refuses the agent; zero if it said something else last, or was silent
	wake    chan struct{}        // holds at most one

	before string // what was logged last
}

// newHandover returns what was accepted before, too, in the agent's first report, unless it is not sure any more that the target accepts the agent's token.
func newHandover(a *agent, store enrolment.Store) *handover {
	h := &handover{agent: a, store: store, said: silent, wake: make(chan struct{}, 1)}
	if next, err := store.Next(); err == nil && next != nil {
		var why error
		if token.RenewIn(next.Token, time.Now()) <= 0 {
			why = errors.New("the agent's token for the target has to be renewed first")
		}
		h.standing(next, why)
	}
	return h
}

// see takes what a watch shows; nil if the host was deleted.
func (h *handover) see(host *v1beta2.CapstanHost) { h.set(wordOf(host, nil), host) }

// unsee forgets what was seen: a watch that begins shows a host that is there, and nothing if there is none.
func (h *handover) unsee() { h.set(silent, nil) }

func (h *handover) set(said word, host *v1beta2.CapstanHost) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if said != silent { // a watch that begins tells nothing yet
		h.refused = time.Time{}
	}
	if said == h.said && offerOf(host) == offerOf(h.host) {
		h.host = host
		return
	}
	h.said, h.host = said, host
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// refusing takes the answer to a question, and returns for how long the management cluster has refused the agent without a break.
func (h *handover) refusing(said word) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case said != refuses:
		h.refused = time.Time{}
		return 0
	case h.refused.IsZero():
		h.refused = time.Now()
	}
	return time.Since(h.refused)
}

func offerOf(host *v1beta2.CapstanHost) string {
	if host == nil {
		return ""
	}
	return host.Offer()
}

// run returns true when the agent has to go on with the next enrolment, which is the current one by then, and false when ctx ends.
func (h *handover) run(ctx context.Context) bool {
	pauses := retry.Pauses{First: 300 * time.Millisecond, Most: 15 * time.Second}
	for ctx.Err() == nil {
		changed, again, err := h.pass(ctx)
		if changed {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if err != nil {
			h.tell(err.Error())
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
		case <-h.wake:
		case <-timer:
		}
	}
	return false
}

// tell logs what keeps the agent waiting, once as long as it is the same.
func (h *handover) tell(why string) {
	if why != h.before {
		h.agent.log.Info("the hand-over waits", "why", why)
	}
	h.before = why
}

// pass does what is to be done now. again is when to look again without a reason; 0: not at all.
func (h *handover) pass(ctx context.Context) (changed bool, again time.Duration, err error) {
	next, err := h.store.Next()
	if err != nil {
		return false, 0, err
	}
	h.mu.Lock()
	said, host := h.said, h.host
	h.mu.Unlock()
	accepted := ""
	if next != nil {
		accepted = next.Offer
	}
	c := plot(said, offerOf(host), accepted)
	if c == ask {
		return h.ask(ctx, next)
	}
	if c == stay && said == present {
		h.report(nil)
	}
	again, err = h.follow(ctx, c, host, next)
	return false, again, err
}

// follow does what is to be done about the offer of a host that is there.
func (h *handover) follow(ctx context.Context, c course, host *v1beta2.CapstanHost, next *enrolment.Enrolment) (again time.Duration, err error) {
	switch c {
	case accept:
		return h.accept(ctx, host)
	case keep:
		return h.keep(ctx, next)
	case drop:
		if err := h.store.Forget(); err != nil {
			return 0, err
		}
		h.agent.log.Info("the offer was taken back", "offer", next.Offer)
		h.report(nil)
	}
	return 0, nil
}

// report says what the agent makes of an offer; nil: there is none.
func (h *handover) report(about *v1beta2.HandOverReport) {
	h.agent.report.update(true, func(r *v1beta2.AgentReport) { r.HandOver = about })
}

// standing reports whether the agent goes along with an offer that it has accepted; why: it does not any more.
func (h *handover) standing(next *enrolment.Enrolment, why error) {
	if why == nil {
		h.report(&v1beta2.HandOverReport{Offer: next.Offer, Accepted: true})
		return
	}
	h.report(&v1beta2.HandOverReport{Offer: next.Offer, Message: cut(why.Error(), 1024)})
}

// accept accepts the offer that the host has, if the target is what it says.
func (h *handover) accept(ctx context.Context, host *v1beta2.CapstanHost) (again time.Duration, err error) {
	offer, err := h.agent.client.Offer(ctx)
	if err == nil && offer.ID != host.Offer() {
		err = fmt.Errorf("there is another offer in Secret %s than in the host's annotation", host.Name+v1beta2.OfferSecretSuffix)
	}
	if err == nil {
		failpoint.Hit("offer read")
		err = h.prove(ctx, host, offer)
	}
	if err != nil {
		if ctx.Err() != nil {
			return 0, err
		}
		err = without(offer.Token, err)
		h.report(&v1beta2.HandOverReport{Offer: host.Offer(), Message: cut(err.Error(), 1024)})
		return 0, err
	}
	h.agent.log.Info("the offer is accepted", "offer", offer.ID, "target", offer.Server)
	return time.Millisecond, nil // on to keep, which reports it
}

// without returns an error of the target, which may have quoted the token, without it; nil for nil.
func without(secret string, err error) error {
	if err == nil || secret == "" || !strings.Contains(err.Error(), secret) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), secret, "(token)"))
}

// prove gets a token of the agent's own in the target, which proves network, authority and account, and reads the host there, which proves its rights; then the offer counts.
func (h *handover) prove(ctx context.Context, host *v1beta2.CapstanHost, offer rest.Offer) error {
	all, err := h.agent.carried()
	if err == nil {
		err = ready(host, all)
	}
	if err != nil {
		return err
	}
	next := enrolment.Enrolment{Offer: offer.ID, Server: offer.Server, CAData: offer.CAData, Token: offer.Token}
	c := h.store.Config(&next)
	if err := c.Check(); err != nil {
		return fmt.Errorf("the offer is not complete: %w", err)
	}
	if next.Token, err = h.renewed(ctx, &next); err != nil {
		return fmt.Errorf("the target: %w", err)
	}
	there, err := h.look(ctx, &next)
	if err != nil {
		return fmt.Errorf("the target: %w", err)
	}
	if err := fits(there, host.Spec.Claim.ProviderID); err != nil {
		return err
	}
	if err := h.store.Prepare(next); err != nil {
		return err
	}
	failpoint.Hit("next written")
	return nil
}

// keep keeps the token for the target fresh until the host moves.
func (h *handover) keep(ctx context.Context, next *enrolment.Enrolment) (again time.Duration, err error) {
	if wait := token.RenewIn(next.Token, time.Now()); wait > 0 {
		h.standing(next, nil)
		return wait, nil
	}
	if next, err = h.fresh(ctx, next); err != nil {
		return 0, err
	}
	return max(time.Minute, token.RenewIn(next.Token, time.Now())), nil
}

// fresh returns next with a token that was renewed if it was time, and reports then whether the agent still goes along. With an error, next is as it was.
func (h *handover) fresh(ctx context.Context, next *enrolment.Enrolment) (*enrolment.Enrolment, error) {
	if token.RenewIn(next.Token, time.Now()) > 0 {
		return next, nil
	}
	renewed := *next
	var err error
	if renewed.Token, err = h.renewed(ctx, next); err != nil {
		err = fmt.Errorf("the target: %w", err)
	} else {
		err = h.store.Prepare(renewed)
	}
	switch {
	case err == nil:
		h.standing(&renewed, nil)
		return &renewed, nil
	case ctx.Err() == nil:
		h.standing(next, without(next.Token, lapsed(err, next.Token, time.Now())))
	}
	return next, without(next.Token, err)
}

// ask finds out whether the host has moved, and changes sides if it has. The token for the target is kept fresh meanwhile: the source may be silent for longer than it lives. An answer
// about the offer counts at once, since watches may fail for long; the answer that the host is there is not kept for what the watch will show.
func (h *handover) ask(ctx context.Context, next *enrolment.Enrolment) (changed bool, again time.Duration, err error) {
	host, err := h.agent.client.Look(ctx)
	said := wordOf(host, err)
	refused := h.refusing(said)
	if offer := offerOf(host); said == present && offer != next.Offer {
		again, err = h.follow(ctx, plot(said, offer, next.Offer), host, next)
		return false, again, err
	}
	next, stale := h.fresh(ctx, next)
	switch said {
	case present: // asked again until the watch says so: what is deleted before the watch begins is not shown by it
		if stale == nil {
			h.standing(next, nil)
		}
		return false, time.Second, stale
	case silent:
		return false, 0, errors.Join(err, stale)
	case leaving:
		if !host.OfferAccepted() { // a host that is marked and left without that word would hold the mover's next run for ever
			return false, 0, errors.Join(errors.New("the management cluster does not know that the agent goes along"), stale)
		}
	}
	there, err := h.look(ctx, next)
	if err != nil {
		return false, 0, fmt.Errorf("the target: %w", err)
	}
	all, err := h.agent.carried()
	if err != nil {
		return false, 0, err
	}
	if err := mayGo(said, refused, there, all); err != nil {
		return false, 0, err
	}
	failpoint.Hit("changing sides")
	if err := h.store.Change(); err != nil {
		return false, 0, err
	}
	failpoint.Hit("changed sides")
	h.agent.log.Info("the host has moved, and the agent with it", "to", next.Server, "claim", there.Spec.Claim.ProviderID)
	return true, 0, nil
}

// look reads the host in the target.
func (h *handover) look(ctx context.Context, next *enrolment.Enrolment) (*v1beta2.CapstanHost, error) {
	client, err := rest.New(h.store.Config(next), fixedToken(next.Token), h.agent.version)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.Look(ctx)
}

// renewed returns a new token of the agent in the target.
func (h *handover) renewed(ctx context.Context, next *enrolment.Enrolment) (string, error) {
	client, err := rest.New(h.store.Config(next), fixedToken(next.Token), h.agent.version)
	if err != nil {
		return "", err
	}
	defer client.Close()
	return client.RequestToken(ctx)
}

// fixedToken is the one token that there is for a target.
type fixedToken string

// Token returns the token.
func (t fixedToken) Token() string { return string(t) }

// Reject does nothing: there is no other.
func (fixedToken) Reject(string) {}

// carried lists the machines that left something in the journals. The worker may be writing them.
func (a *agent) carried() ([]carried, error) {
	views, err := journal.Look(a.config.JournalDir())
	if err != nil {
		return nil, err
	}
	var all []carried
	for _, v := range views {
		cleaned, _ := v.Cleaned()
		if v.Carries() || v.Began() || v.Outcome().Ended {
			all = append(all, carried{claim: v.Claim(), ended: v.Outcome().Ended, cleaned: cleaned && !v.Carries()})
		}
	}
	return all, nil
}
