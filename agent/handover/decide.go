package handover

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

// leaveMark is clusterctl's annotation on an object that it has moved: right before it deletes the object in the
// source, clusterctl replaces all other annotations with this one.
const leaveMark = "clusterctl.cluster.x-k8s.io/delete-for-move"

// refusalPatience is how long the source must refuse the agent before the agent concludes that the source has given up
// the host. A freshly started API server refuses valid tokens for some seconds. After silence or any other answer, the
// time starts again from zero.
const refusalPatience = time.Minute

// answer is what a management cluster says about the host.
type answer string

const (
	// silent: no answer, or none that counts.
	silent answer = "silent"
	// refuses: the server does not know the agent, or grants it nothing.
	refuses answer = "refuses"
	// absent: the host does not exist there.
	absent answer = "absent"
	// leaving: the host exists, but clusterctl is about to delete it because it has moved.
	leaving answer = "leaving"
	// present: the host exists.
	present answer = "present"
)

// answerOf classifies the result of a call for the host.
func answerOf(host *v1beta2.CapstanHost, err error) answer {
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

// action is what to do about offers from other management clusters.
type action string

const (
	// nothing: there is no offer.
	nothing action = "nothing"
	// accept: there is an offer that the agent has not accepted yet.
	accept action = "accept"
	// keep: the agent has accepted the offer, and the host has not moved yet.
	keep action = "keep"
	// forget: the offer that the agent has accepted was withdrawn.
	forget action = "forget"
	// ask: the host may have moved.
	ask action = "ask"
)

// decide returns the action. Its arguments are the source's last answer (said), the host's offer in that answer
// (offer), and the offer that the agent has accepted, or empty (accepted). An offer counts as withdrawn only if the
// answer shows the host without an offer.
func decide(said answer, offer, accepted string) action {
	switch {
	case said != present && accepted == "":
		return nothing
	case said != present:
		return ask
	case offer == "" && accepted == "":
		return nothing
	case offer == "":
		return forget
	case offer == accepted:
		return keep
	default:
		return accept
	}
}

// carries returns nil if the machine of the claim is on the host and no other machine is. Otherwise it returns an error
// that says what is on the host.
func carries(claim string, all []carried) error {
	known := false
	for _, c := range all {
		if c.claim == claim {
			known = true
		} else if !c.cleaned {
			return fmt.Errorf("another machine is on the host: %s", c.claim)
		}
	}
	if !known {
		return fmt.Errorf("machine %s is not on the host", claim)
	}
	return nil
}

// ready returns why the agent can't accept an offer in the host's present state, or nil if it can.
func ready(host *v1beta2.CapstanHost, all []carried) error {
	claim := host.Spec.Claim
	switch {
	case host.Spec.Supplier != "":
		return errors.New("local hosts don't move")
	case claim == nil:
		return errors.New("no machine claims the host")
	case claim.Released:
		return errors.New("the machine on the host was deleted: the host is cleaned before it moves")
	}
	if err := carries(claim.ProviderID, all); err != nil {
		return err
	}
	for _, c := range all {
		if c.claim == claim.ProviderID && (!c.ended || c.cleaned) {
			return errors.New("the bootstrap of the machine has not finished")
		}
	}
	return nil
}

// fits checks the host of the same name in the target. It returns why that host keeps the agent from accepting the
// offer, or nil if it doesn't. Before the move there is normally no such host.
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

// lapsed returns why the agent can no longer follow an offer that it has accepted, or nil if it still can. err says why
// the agent's token for the target could not be renewed. As long as the token is valid, a target that fails or can't be
// reached may recover. The agent reports the text of the result, so the text must not change with each attempt. It does
// not contain network errors, because they contain port numbers that change.
func lapsed(err error, token string, now time.Time) error {
	switch {
	case rest.IsCode(err, http.StatusUnauthorized):
		return fmt.Errorf("the target no longer accepts the agent's token; capstan clusterctl move renews the offer: %w",
			err)
	case expired(token, now):
		return errors.New("the agent's token for the target has expired; capstan clusterctl move renews the offer")
	}
	return nil
}

// expired reports whether a JSON web token has expired according to its own claims.
func expired(token string, now time.Time) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	var claims struct {
		Expires int64 `json:"exp"`
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	return err == nil && json.Unmarshal(payload, &claims) == nil && claims.Expires > 0 &&
		!now.Before(time.Unix(claims.Expires, 0))
}

// mayChange returns why the agent may not change sides, or nil if it may. Its arguments are the source's answer (said),
// the time for which the source has refused the agent (refused), the host as the target shows it (there), and the
// machines on the host (all).
//
// Only an answer of the source can let the host go: silence may be an outage. The claim in the target must be that of
// the machine on the host: otherwise the target's instructions concern another machine. A source that refuses the agent
// does not say that the host is gone. In that case the agent does not change to a target that has released the claim:
// after the change, the agent would clean the host.
func mayChange(said answer, refused time.Duration, there *v1beta2.CapstanHost, all []carried) error {
	switch said {
	case absent, leaving:
	case refuses:
		if refused < refusalPatience {
			return errors.New("the management cluster refuses the agent; this may be temporary")
		}
	default:
		return errors.New("the management cluster has not released the host")
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
		return errors.New("the target has released the host, but the source, which refuses the agent, has not " +
			"confirmed that the host moved")
	}
	return nil
}
