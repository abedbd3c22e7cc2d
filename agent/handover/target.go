package handover

import (
	"context"

	"github.com/capstan-dev/capstan/agent/rest"
	"github.com/capstan-dev/capstan/agent/token"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// look reads the host in the target.
func (f *Follower) look(ctx context.Context, next *Enrolment) (*v1beta2.CapstanHost, error) {
	client, err := rest.New(f.Store.Config(next), fixedToken(next.Token), f.Version)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.Look(ctx)
}

// renewed returns a new token for the agent in the target. It is bound to the same Secret as the present one, because
// the host has the same epoch there.
func (f *Follower) renewed(ctx context.Context, next *Enrolment) (string, error) {
	client, err := rest.New(f.Store.Config(next), fixedToken(next.Token), f.Version)
	if err != nil {
		return "", err
	}
	defer client.Close()
	return client.RequestToken(ctx, token.Secret(next.Token))
}

// fixedToken is the only token for a target.
type fixedToken string

// Token returns the token.
func (t fixedToken) Token() string { return string(t) }

// Reject does nothing, because there is no other token.
func (fixedToken) Reject(string) {}
