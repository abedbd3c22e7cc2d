package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/supply"
)

// Options configures a Keeper. All fields are required.
type Options struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// Register must be the one that the controller of CapstanHosts uses.
	Register *Register
	// Supplier creates and destroys the hosts.
	Supplier supply.Supplier
	// Budget is the number of hosts, at most Max.
	Budget int
	// Zones are the failure domains over which the hosts of each namespace are spread evenly; at least one.
	Zones []string
	// Clock is the source of time.
	Clock clock.PassiveClock
}

// Keeper registers, removes and moves hosts until each namespace has its share. Create it with New.
type Keeper struct{ Options }

// New returns a Keeper. It returns an error if the budget is out of range or there are no zones.
func New(o Options) (*Keeper, error) {
	if o.Budget < 0 || o.Budget > Max {
		return nil, fmt.Errorf("there can't be %d local hosts: choose 0 to %d", o.Budget, Max)
	}
	if len(o.Zones) == 0 {
		return nil, errors.New("local hosts need at least one zone")
	}
	return &Keeper{Options: o}, nil
}

// supplyTimeout bounds one call to the supplier.
const supplyTimeout = time.Minute

// Keep takes one step towards the shares and reports whether nothing is left to do. It removes unclaimed hosts, records
// the new namespace of each number whose host is gone from the API server and from the supplier, and then registers the
// host there. A step may be repeated, and may stop at any point. An error in one part does not stop the others.
func (k *Keeper) Keep(ctx context.Context) (settled bool, err error) {
	picture, err := k.picture(ctx)
	if err != nil {
		return false, err
	}
	d := Decide(picture)
	var errs []error
	for _, host := range d.Remove {
		errs = append(errs, k.remove(ctx, host))
	}
	assigned, err := k.note(ctx, d)
	errs = append(errs, err)
	for _, a := range assigned {
		errs = append(errs, k.register(ctx, a))
	}
	return d.IsSettled(), errors.Join(errs...)
}

// picture collects everything that a decision depends on.
func (k *Keeper) picture(ctx context.Context) (Picture, error) {
	list := &infrav1.CapstanHostList{}
	if err := k.Client.List(ctx, list); err != nil {
		return Picture{}, fmt.Errorf("listing hosts: %w", err)
	}
	demands, err := Look(ctx, k.Client, list.Items)
	return Picture{
		Budget: k.Budget, Zones: k.Zones, Hosts: list.Items, Owners: k.Register.Owners(), Demands: demands,
		Now: k.Clock.Now(),
	}, err
}

// remove deletes a host that was unclaimed when it was read. A host that has changed since may be claimed now, so
// remove keeps it, and the next step checks again.
func (k *Keeper) remove(ctx context.Context, host *infrav1.CapstanHost) error {
	err := k.Client.Delete(ctx, host, client.Preconditions{UID: &host.UID, ResourceVersion: &host.ResourceVersion})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("removing host %s from namespace %s: %w", host.Name, host.Namespace, err)
	}
	return nil
}

// note records in the register which namespaces get which numbers, and returns the numbers that may be registered now.
func (k *Keeper) note(ctx context.Context, d Decision) ([]Assignment, error) {
	if len(d.Assign)+len(d.Forget) == 0 {
		return nil, nil
	}
	owners := k.Register.Owners()
	var ready []Assignment
	var errs []error
	exist, err := k.exist(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range d.Assign {
		gone, err := k.isGone(ctx, a, owners[a.Number], exist)
		if err != nil {
			errs = append(errs, err)
		} else if gone {
			owners[a.Number] = a.Namespace
			ready = append(ready, a)
		}
	}
	for _, number := range d.Forget {
		gone, err := k.isGone(ctx, Assignment{Number: number}, owners[number], exist)
		if err != nil {
			errs = append(errs, err)
		} else if gone {
			delete(owners, number)
		}
	}
	if err := k.Register.write(ctx, owners); err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	return ready, errors.Join(errs...)
}

// exist returns the hosts that the supplier has.
func (k *Keeper) exist(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, supplyTimeout)
	defer cancel()
	exist, err := k.Supplier.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the supplier's hosts: %w", err)
	}
	return exist, nil
}

// isGone reports whether a number is free: the namespace that had it no longer has the host. If another namespace gets
// the number, isGone also destroys what is left of the host.
func (k *Keeper) isGone(ctx context.Context, a Assignment, owner string, exist []string) (bool, error) {
	host := name(a.Number)
	if owner != "" {
		err := k.Reader.Get(ctx, client.ObjectKey{Namespace: owner, Name: host}, &infrav1.CapstanHost{})
		if err == nil {
			return false, nil
		}
		if !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("reading host %s in namespace %s: %w", host, owner, err)
		}
	}
	if owner == a.Namespace || !slices.Contains(exist, host) {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, supplyTimeout)
	defer cancel()
	if err := k.Supplier.Destroy(ctx, host); err != nil {
		return false, fmt.Errorf("destroying the remains of host %s: %w", host, err)
	}
	return true, nil
}

// register creates the CapstanHost of a number.
func (k *Keeper) register(ctx context.Context, a Assignment) error {
	host := &infrav1.CapstanHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: name(a.Number)},
		Spec:       infrav1.CapstanHostSpec{Zone: a.Zone, Supplier: infrav1.SupplierDock},
	}
	if err := k.Client.Create(ctx, host); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("registering host %s in namespace %s: %w", host.Name, host.Namespace, err)
	}
	return nil
}
