package host

import (
	"context"
	"time"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/identity"
	"github.com/capstan-dev/capstan/provider/step"
)

// takenPause is how long the controller waits before it looks again whether a name that a host needs is free.
const takenPause = 15 * time.Second

// identity makes sure that the host's agent has an account that may do what an agent does, for its own host only. A
// supplied host gets it when it is claimed: before, it has no agent. It is applied once by each process, and again when
// a token can't be had; after a release only the account is made again, for only that was deleted. A host whose objects
// can't be made, because others have their names, gets none of them and is not ready.
func (r *Reconciler) identity(ctx context.Context, s *scope) (step.Answer, error) {
	c := s.host.Spec.Claim
	if s.host.Spec.Supplier != "" && (c == nil || c.Released) || s.host.Spec.Supplier == "" && !s.host.DeletionTimestamp.IsZero() {
		return step.Next(), nil
	}
	r.mu.Lock()
	has := r.identities[s.host.UID]
	r.mu.Unlock()
	objects := identity.Objects(s.host)
	switch has {
	case wholeIdentity:
		return step.Next(), nil
	case allButAccount:
		objects = objects[:1]
	}
	err := identity.Ensure(ctx, r.Reader, r.Client, s.host, objects)
	if taken := identity.Taken(err); taken != nil {
		s.taken = true
		s.obstacle = &step.Obstacle{Reason: infrav1.NameTakenReason, Message: taken.Error()}
		return step.Next(), nil
	}
	if err != nil {
		return step.Answer{}, err
	}
	r.noteIdentity(s.host, wholeIdentity)
	return step.Next(), nil
}

// extent is how much of a host's identity this process knows to be there.
type extent int

const (
	unknownIdentity extent = iota
	allButAccount
	wholeIdentity
)

func (r *Reconciler) noteIdentity(host *infrav1.CapstanHost, has extent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if has == unknownIdentity {
		delete(r.identities, host.UID)
		return
	}
	r.identities[host.UID] = has
}

// revoke makes the agent's tokens invalid: those of an account that was deleted stay so when it is made again. The API
// server may remember a token that it has just seen for 10 s.
func (r *Reconciler) revoke(ctx context.Context, host *infrav1.CapstanHost) error {
	if err := identity.RemoveAccount(ctx, r.Reader, r.Client, host); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.identities[host.UID] == wholeIdentity {
		r.identities[host.UID] = allButAccount
	}
	return nil
}
