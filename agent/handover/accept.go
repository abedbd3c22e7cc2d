package handover

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/agent/report"
	"github.com/capstan-dev/capstan/agent/rest"
	"github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/failpoint"
)

// accept accepts the offer made to the host, if the target turns out to be what the offer says.
func (f *Follower) accept(ctx context.Context, host *v1beta2.CapstanHost) (again time.Duration, err error) {
	offer, err := f.Source.Offer(ctx)
	if err == nil && offer.ID != host.Offer() {
		err = fmt.Errorf("secret %s and the host's annotation have different offers",
			host.Name+v1beta2.OfferSecretSuffix)
	}
	if err == nil && !v1beta2.OfferLeadsTo(offer.ID, offer.Server, offer.CAData) {
		err = fmt.Errorf("secret %s names a target that does not match the id of its offer: repeat the offer",
			host.Name+v1beta2.OfferSecretSuffix)
	}
	if err == nil {
		failpoint.Hit("offer read")
		err = f.prove(ctx, host, offer)
	}
	if err != nil {
		if ctx.Err() != nil {
			return 0, err
		}
		err = without(offer.Token, err)
		f.report(&v1beta2.HandOverReport{Offer: host.Offer(), Message: report.Cut(err.Error(), report.MessageLimit)})
		return 0, err
	}
	f.Log.Info("the offer is accepted", "offer", offer.ID, "target", offer.Server)
	return time.Millisecond, nil // the action keep follows at once, and reports the acceptance
}

// without removes a secret from the text of an error, because an error of the target may quote the token. A nil error
// stays nil.
func without(secret string, err error) error {
	if err == nil || secret == "" || !strings.Contains(err.Error(), secret) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), secret, "(token)"))
}

// sameHost reports whether an enrolment server is on the same host as the API server. The id of an offer is bound
// only to the API server's address and CA. This check keeps a user who changes the Secret of an offer from naming an
// enrolment server on a different host. It is a pure function.
func sameHost(enrolment, server string) bool {
	if enrolment == "" {
		return true
	}
	one, err := url.Parse(enrolment)
	if err != nil {
		return false
	}
	other, err := url.Parse(server)
	return err == nil && one.Hostname() == other.Hostname()
}

// prove tries the offer if the host is ready for it. First it gets the agent's own token from the target: this proves
// that the network, the certificate authority and the account work. Then it reads the host there: this proves the
// agent's rights. Finally it writes the next enrolment, and from then on the agent has accepted the offer.
func (f *Follower) prove(ctx context.Context, host *v1beta2.CapstanHost, offer rest.Offer) error {
	all, err := carriedMachines(f.Config.JournalDir())
	if err == nil {
		err = ready(host, all)
	}
	if err != nil {
		return err
	}
	next := Enrolment{
		Offer: offer.ID, Server: offer.Server, CAData: offer.CAData, Token: offer.Token, Enrolment: offer.Enrolment,
	}
	c := f.Store.Config(&next)
	if err := c.Check(); err != nil {
		return fmt.Errorf("the offer is not complete: %w", err)
	}
	if !sameHost(offer.Enrolment, offer.Server) {
		return errors.New("the offer names an enrolment server on a different host than the target's API server: " +
			"repeat the offer")
	}
	if next.Token, err = f.renewed(ctx, &next); err != nil {
		return fmt.Errorf("the target: %w", err)
	}
	there, err := f.look(ctx, &next)
	if err != nil {
		return fmt.Errorf("the target: %w", err)
	}
	if err := fits(there, host.Spec.Claim.ProviderID); err != nil {
		return err
	}
	if err := f.Store.Prepare(next); err != nil {
		return err
	}
	failpoint.Hit("next written")
	return nil
}
