package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

// LeaseDuration is how long after a heartbeat the host counts as alive.
const LeaseDuration = 40 * time.Second

// microTime is the layout of times in a Lease.
const microTime = "2006-01-02T15:04:05.000000Z07:00"

// lease contains what the agent needs from a Lease; metadata is sent back unchanged.
type lease struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   json.RawMessage `json:"metadata"`
	Spec       leaseSpec       `json:"spec"`
}

type leaseSpec struct {
	HolderIdentity       string `json:"holderIdentity"`
	LeaseDurationSeconds int    `json:"leaseDurationSeconds"`
	AcquireTime          string `json:"acquireTime,omitempty"`
	RenewTime            string `json:"renewTime"`
}

const coordination = "/apis/coordination.k8s.io/v1"

// Beat renews the host's Lease. The creator of the host also creates the Lease, because the right to create Leases
// can't be limited to one name. Observers use the time of the change by their own clock, not renewTime, because the
// clocks of hosts differ.
func (c *Client) Beat(ctx context.Context, now time.Time) error {
	path := c.namespaced(coordination, "leases", c.host)
	var l lease
	if err := c.call(ctx, http.MethodGet, path, nil, "", nil, &l); err != nil {
		return fmt.Errorf("reading Lease %s: %w", c.host, err)
	}
	l.APIVersion, l.Kind = "coordination.k8s.io/v1", "Lease"
	l.Spec.LeaseDurationSeconds = int(LeaseDuration / time.Second)
	l.Spec.RenewTime = now.UTC().Format(microTime)
	if l.Spec.HolderIdentity != c.host {
		l.Spec.HolderIdentity, l.Spec.AcquireTime = c.host, l.Spec.RenewTime
	}
	if err := c.call(ctx, http.MethodPut, path, nil, "application/json", &l, nil); err != nil {
		return fmt.Errorf("renewing Lease %s: %w", c.host, err)
	}
	return nil
}

// TokenLife is the lifetime that the agent requests for its token; the server may shorten it.
const TokenLife = 24 * time.Hour

// RequestToken gets a new token for the host's own ServiceAccount. The token is bound to a Secret and becomes invalid
// when that Secret is deleted. An empty name requests an unbound token, which only management clusters that predate
// epochs grant.
func (c *Client) RequestToken(ctx context.Context, secret string) (string, error) {
	account := v1beta2.IdentityPrefix + c.host
	spec := map[string]any{"expirationSeconds": int(TokenLife / time.Second)}
	if secret != "" {
		spec["boundObjectRef"] = map[string]any{"apiVersion": "v1", "kind": "Secret", "name": secret}
	}
	request := map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
	var answer struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	path := c.namespaced("/api/v1", "serviceaccounts", account) + "/token"
	if err := c.call(ctx, http.MethodPost, path, nil, "application/json", request, &answer); err != nil {
		return "", fmt.Errorf("renewing the token of ServiceAccount %s: %w", account, err)
	}
	if answer.Status.Token == "" {
		return "", fmt.Errorf("renewing the token of ServiceAccount %s: the server granted none", account)
	}
	return answer.Status.Token, nil
}
