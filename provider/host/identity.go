package host

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/identity"
	"github.com/capstan-dev/capstan/provider/step"
)

// takenPause is how long the controller waits before it looks again whether a name that a host needs is free.
const takenPause = 15 * time.Second

// identity makes sure that the host's agent has an account that may do what an agent does, for its own host only. A
// supplied host gets it when it is claimed: before, it has no agent. It is applied once by each process, and again when
// a token can't be had; after a release only the account is made again, for only that was deleted. A host whose objects
// can't be made, because others have their names, gets none of them and is not ready. A Lease that got lost is made again.
func (r *Reconciler) identity(ctx context.Context, s *scope) (step.Answer, error) {
	c := s.host.Spec.Claim
	if s.host.Spec.Supplier != "" && (c == nil || c.Released) || s.host.Spec.Supplier == "" && !s.host.DeletionTimestamp.IsZero() {
		return step.Next(), nil
	}
	key := client.ObjectKeyFromObject(s.host)
	r.mu.Lock()
	has, lost := r.identities[s.host.UID], r.lostLeases[key]
	delete(r.lostLeases, key) // before it is made: it may get lost again
	r.mu.Unlock()
	objects := missing(identity.Objects(s.host), has, lost)
	if len(objects) == 0 {
		return step.Next(), nil
	}
	err := identity.Ensure(ctx, r.Reader, r.Client, s.host, objects)
	if err != nil && lost {
		r.noteLease(key)
	}
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

// missing returns the objects of an identity that are to be made.
func missing(all []runtime.ApplyConfiguration, has extent, lostLease bool) []runtime.ApplyConfiguration {
	if has == unknownIdentity {
		return all
	}
	var some []runtime.ApplyConfiguration
	for i, object := range all {
		_, isLease := object.(*coordinationv1ac.LeaseApplyConfiguration)
		if isAccount := i == 0; isAccount && has == allButAccount || isLease && lostLease {
			some = append(some, object)
		}
	}
	return some
}

// noteLease notes that the Lease of a host is to be made again.
func (r *Reconciler) noteLease(host types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lostLeases[host] = true
}

// forgetLease drops what noteLease has noted: there is no such host.
func (r *Reconciler) forgetLease(host types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.lostLeases, host)
}

// intact reports whether a Lease is known to be that of a host, and is deleted with it and not before.
func intact(lease client.Object) bool {
	host, ours := hostOf(lease)
	return ours && slices.ContainsFunc(lease.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		return owner.APIVersion == infrav1.GroupVersion.String() && owner.Kind == "CapstanHost" && owner.Name == host.Name
	})
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
