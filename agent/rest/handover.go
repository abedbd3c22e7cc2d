package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

// Look returns the current state of the host, or nil if the API server says that it does not exist. The answer does not
// come from a cache.
//
// Look requests a list of one, because "not found" can also come from something that is not an API server, or from an
// API server without CapstanHosts.
func (c *Client) Look(ctx context.Context) (*v1beta2.CapstanHost, error) {
	var list v1beta2.CapstanHostList
	query := url.Values{"fieldSelector": {"metadata.name=" + c.host}}
	if err := c.call(ctx, http.MethodGet, c.namespaced(hosts, "capstanhosts", ""), query, "", nil, &list); err != nil {
		return nil, fmt.Errorf("reading the host: %w", err)
	}
	if list.Kind != "CapstanHostList" || list.ResourceVersion == "" {
		return nil, errors.New("reading the host: the answer is not that of an API server")
	}
	for i := range list.Items {
		if list.Items[i].Name == c.host {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// Offer is an offer from another management cluster.
type Offer struct {
	// ID is the same as in the host's annotation.
	ID string
	// Server, CAData and Token are as in the agent's configuration. The token may be short-lived.
	Server, CAData, Token string
	// Enrolment is the URL of the target's enrolment server; empty if the target has none.
	Enrolment string
}

// Offer reads the Secret with the offer made to the host.
func (c *Client) Offer(ctx context.Context) (Offer, error) {
	name := c.host + v1beta2.OfferSecretSuffix
	var secret struct {
		Data map[string][]byte `json:"data"`
	}
	if err := c.call(ctx, http.MethodGet, c.namespaced("/api/v1", "secrets", name), nil, "", nil, &secret); err != nil {
		return Offer{}, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	value := func(key string) string { return strings.TrimSpace(string(secret.Data[key])) }
	return Offer{
		ID: value(v1beta2.OfferIDKey), Server: strings.TrimRight(value(v1beta2.OfferServerKey), "/"),
		CAData: value(v1beta2.OfferCAKey), Token: value(v1beta2.OfferTokenKey),
		Enrolment: strings.TrimRight(value(v1beta2.OfferEnrolmentKey), "/"),
	}, nil
}
