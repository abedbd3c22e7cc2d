package agent

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/agent/rest"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// leaveMark is the annotation that clusterctl, in place of all others, puts on an object right before it deletes it in the management cluster that it has moved it from.
const leaveMark = "clusterctl.cluster.x-k8s.io/delete-for-move"

// refusalPatience is how long a management cluster must have refused the agent, without a break, before that counts as a sign that it has given the host up: an API server that has just
// started refuses good tokens for some seconds. Silence is a break, and so is any other word.
const refusalPatience = time.Minute

// word is what a management cluster says about the host.
type word string

const (
	// silent: there was no answer, or one that tells nothing.
	silent word = "silent"
	// refuses: it doesn't know the agent, or allows it nothing.
	refuses word = "refuses"
	// absent: the host isn't there.
	absent word = "absent"
	// leaving: the host is there, and about to be deleted because it has moved.
	leaving word = "leaving"
	// present: the host is there.
	present word = "present"
)

// wordOf returns what an answer says.
func wordOf(host *v1beta2.CapstanHost, err error) word {
	switch {
	case rest.IsCode(err, http.StatusUnauthorized), rest.IsCode(err, http.StatusForbidden):
		return refuses
	case err != nil:
		return silent
	case host == nil:
		return absent
	}
	if _, marked := host.Annotations[leaveMark]; marked {
		return leaving
	}
	return present
}

// course is what to do about offers of other management clusters.
type course string

const (
	// stay: there is no offer.
	stay course = "stay"
	// accept: there is an offer that was not accepted yet.
	accept course = "accept"
	// keep: the offer is accepted; the move has not come.
	keep course = "keep"
	// drop: the accepted offer was taken back.
	drop course = "drop"
	// ask: the host may have moved.
	ask course = "ask"
)

// plot returns the course. said is what the management cluster that the agent works for has said last, with the offer that the host has there; next is the offer that was
// accepted, empty for none. An offer is taken back only by a host that is there.
func plot(said word, offer, next string) course {
	switch {
	case said != present && next == "":
		return stay
	case said != present:
		return ask
	case offer == "" && next == "":
		return stay
	case offer == "":
		return drop
	case offer == next:
		return keep
	default:
		return accept
	}
}

// carried is a machine that the host carries: what a journal tells.
type carried struct {
	// claim is the provider id.
	claim string
	// ended is true when its bootstrap ended, cleaned when the host was cleaned after it and nothing was left.
	ended, cleaned bool
}

// carries returns why the machine of a claim isn't the one that the host carries; nil if it is.
func carries(claim string, all []carried) error {
	known := false
	for _, c := range all {
		if c.claim == claim {
			known = true
		} else if !c.cleaned {
			return fmt.Errorf("the host carries the machine of %s", c.claim)
		}
	}
	if !known {
		return fmt.Errorf("the host does not carry the machine of %s", claim)
	}
	return nil
}

// ready returns why the agent can't accept an offer while its host is as it is; nil if it can.
func ready(host *v1beta2.CapstanHost, all []carried) error {
	claim := host.Spec.Claim
	switch {
	case host.Spec.Supplier != "":
		return errors.New("local hosts don't move")
	case claim == nil:
		return errors.New("no machine claims the host")
	case claim.Released:
		return errors.New("the machine on the host was deleted: it is cleaned where it is")
	}
	if err := carries(claim.ProviderID, all); err != nil {
		return err
	}
	for _, c := range all {
		if c.claim == claim.ProviderID && (!c.ended || c.cleaned) {
			return errors.New("the bootstrap of the machine has not ended")
		}
	}
	return nil
}

// fits returns why a host in the target of an offer keeps the agent from accepting it; nil if it doesn't. Before the move there is none.
func fits(there *v1beta2.CapstanHost, claim string) error {
	switch {
	case there == nil:
		return nil
	case there.Spec.Supplier != "":
		return errors.New("the target has a local host of that name")
	case there.Spec.Claim == nil:
		return errors.New("the target has a host of that name already, which no machine claims: delete it there")
	case there.Spec.Claim.ProviderID != claim:
		return fmt.Errorf("the target has a host of that name already, with the claim of %s", there.Spec.Claim.ProviderID)
	}
	return nil
}

// lapsed returns why the agent does not go along any more with an offer that it has accepted; nil if it does. err is why its token for the target could not be renewed: a target
// that was not reached, or that fails, may be back while the token lives. The text is the same at each try: it is reported, and an error of the network has other ports each time.
func lapsed(err error, token string, now time.Time) error {
	switch {
	case rest.IsCode(err, http.StatusUnauthorized):
		return fmt.Errorf("the target does not accept the agent's token any more; capstan clusterctl move offers it anew: %w", err)
	case expired(token, now):
		return errors.New("the agent's token for the target has expired; capstan clusterctl move offers it anew")
	}
	return nil
}

// expired reports whether a JSON web token says that its life is over.
func expired(token string, now time.Time) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	var claims struct {
		Expires int64 `json:"exp"`
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	return err == nil && json.Unmarshal(payload, &claims) == nil && claims.Expires > 0 && !now.Before(time.Unix(claims.Expires, 0))
}

// mayGo returns why the agent does not change sides; nil if it does. said is what the side that it works for says, since when it refuses if it does; there is the host on the other
// side, which has answered.
//
// Only the side that it works for can let it go, by word: silence may be an outage. The other side must have the claim of the machine that the host carries, so that
// whatever it says, it says about that machine. Where the first side does not even say that the host is gone, a claim that was released is not followed either: it would clean the host.
func mayGo(said word, refused time.Duration, there *v1beta2.CapstanHost, all []carried) error {
	switch said {
	case absent, leaving:
	case refuses:
		if refused < refusalPatience {
			return errors.New("the management cluster refuses the agent, which may pass")
		}
	default:
		return errors.New("the management cluster has not let the host go")
	}
	switch {
	case there == nil:
		return errors.New("the host is not in the target")
	case there.Spec.Supplier != "":
		return errors.New("the target has a local host of that name")
	case there.Spec.Claim == nil:
		return errors.New("no machine claims the host in the target")
	}
	if err := carries(there.Spec.Claim.ProviderID, all); err != nil {
		return fmt.Errorf("the target claims the host for another machine: %w", err)
	}
	if said == refuses && there.Spec.Claim.Released {
		return errors.New("the target has released the host, and the management cluster that refuses the agent has not said that it is gone")
	}
	return nil
}
