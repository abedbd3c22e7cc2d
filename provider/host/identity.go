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

// takenPause is how long the controller waits before it checks again whether a taken name is free.
const takenPause = 15 * time.Second

// identity makes sure that the host's agent has an account with the rights of an agent, limited to its own host. A
// supplied host gets the account when it is claimed, because it has no agent before that. Each process applies the
// objects once, and again if it can't get a token. The step also recreates a lost Lease. If the name of an object is
// taken, the host gets none of the objects and is not ready.
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

// leaseAmong returns the Lease from the objects of an identity if lost is true, and nothing if it is false.
func leaseAmong(all []runtime.ApplyConfiguration, lost bool) []runtime.ApplyConfiguration {
	return slices.DeleteFunc(all, func(object runtime.ApplyConfiguration) bool {
		_, isLease := object.(*coordinationv1ac.LeaseApplyConfiguration)
		return !isLease || !lost
	})
}

// noteLease records that the Lease of a host must be recreated.
func (r *Reconciler) noteLease(host types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lostLeases[host] = true
}

// takeLostLease reports whether the Lease of a host was recorded as lost, and drops the record. It drops the record
// before the Lease is recreated, because the Lease may be lost again.
func (r *Reconciler) takeLostLease(host types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	lost := r.lostLeases[host]
	delete(r.lostLeases, host)
	return lost
}

// forgetLease drops the record of noteLease for a host that no longer exists.
func (r *Reconciler) forgetLease(host types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.lostLeases, host)
}

// intact reports whether a Lease still has the label and the owner reference of its host.
func intact(lease client.Object) bool {
	host, ours := hostOf(lease)
	return ours && slices.ContainsFunc(lease.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		return owner.APIVersion == infrav1.GroupVersion.String() && owner.Kind == "CapstanHost" && owner.Name == host.Name
	})
}

// takes reports whether err is an identity.TakenError. If so, it sets s.taken and the obstacle.
func (s *scope) takes(err error) bool {
	taken := identity.Taken(err)
	if taken == nil {
		return false
	}
	s.taken = true
	s.obstacle = &step.Obstacle{Reason: infrav1.NameTakenReason, Message: taken.Error()}
	return true
}

// needsIdentity reports whether the host has an agent or will have one soon.
func needsIdentity(host *infrav1.CapstanHost) bool {
	c := host.Spec.Claim
	if host.Spec.Supplier != "" {
		return c != nil && !c.Released
	}
	return host.DeletionTimestamp.IsZero()
}

// identityState is what this process knows about a host's identity. The zero value means nothing.
type identityState struct {
	// applied is true if the account, role, role binding and Lease exist.
	applied bool
	// begun is true if the Secret of begunEpoch exists. ended is true if the Secrets of all epochs before endedEpoch are
	// gone.
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
