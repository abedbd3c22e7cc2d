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
// a token can't be had. A host whose objects can't be made, because others have their names, gets none of them and is
// not ready. A Lease that got lost is made again.
func (r *Reconciler) identity(ctx context.Context, s *scope) (step.Answer, error) {
	if !needsIdentity(s.host) {
		return step.Next(), nil
	}
	key := client.ObjectKeyFromObject(s.host)
	lost, objects := r.takeLostLease(key), identity.Objects(s.host)
	if r.identityOf(s.host).applied {
		objects = leaseAmong(objects, lost)
	}
	if len(objects) == 0 {
		return step.Next(), nil
	}
	err := identity.Ensure(ctx, r.Reader, r.Client, s.host, objects)
	if err != nil && lost {
		r.noteLease(key)
	}
	if s.takes(err) {
		return step.Next(), nil
	}
	if err != nil {
		return step.Answer{}, err
	}
	r.noteIdentity(s.host, func(known *identityState) { known.applied = true })
	return step.Next(), nil
}

// leaseAmong returns the Lease among the objects of an identity, if it was lost: the others are there.
func leaseAmong(all []runtime.ApplyConfiguration, lost bool) []runtime.ApplyConfiguration {
	return slices.DeleteFunc(all, func(object runtime.ApplyConfiguration) bool {
		_, isLease := object.(*coordinationv1ac.LeaseApplyConfiguration)
		return !isLease || !lost
	})
}

// noteLease notes that the Lease of a host is to be made again.
func (r *Reconciler) noteLease(host types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lostLeases[host] = true
}

// takeLostLease reports whether the Lease of a host was noted as lost, and forgets that before it is made: it may get
// lost again.
func (r *Reconciler) takeLostLease(host types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	lost := r.lostLeases[host]
	delete(r.lostLeases, host)
	return lost
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

// takes reports whether an error says that somebody else has a name that the host needs, and notes that if it does.
func (s *scope) takes(err error) bool {
	taken := identity.Taken(err)
	if taken == nil {
		return false
	}
	s.taken = true
	s.obstacle = &step.Obstacle{Reason: infrav1.NameTakenReason, Message: taken.Error()}
	return true
}

// needsIdentity reports whether the host has an agent, or will have one in a moment.
func needsIdentity(host *infrav1.CapstanHost) bool {
	c := host.Spec.Claim
	if host.Spec.Supplier != "" {
		return c != nil && !c.Released
	}
	return host.DeletionTimestamp.IsZero()
}

// identityState is what this process knows to be true of a host's identity. The zero value: nothing.
type identityState struct {
	// applied: account, role, binding and Lease are there.
	applied bool
	// begun and ended: the Secret of begunEpoch is there, and those of all epochs before endedEpoch are not.
	begun, ended           bool
	begunEpoch, endedEpoch int64
}

func (r *Reconciler) identityOf(host *infrav1.CapstanHost) identityState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.identities[host.UID]
}

func (r *Reconciler) noteIdentity(host *infrav1.CapstanHost, change func(*identityState)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.identities[host.UID]
	change(&known)
	r.identities[host.UID] = known
}

func (r *Reconciler) forgetIdentity(host *infrav1.CapstanHost) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.identities, host.UID)
}
