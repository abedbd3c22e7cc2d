// Package inventory keeps a number of supplied hosts registered.
package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// Max is the most hosts that Ensure registers: as many as the network of local hosts has addresses for, by far.
const Max = 999

const prefix = "host-"

// Ensure registers the hosts host-01 to host-N of supplier dock in the namespace, their zones in turn, and removes those with a higher number
// that nobody claims. A claimed host stays until it is free and Ensure is called again. A host's zone never changes.
func Ensure(ctx context.Context, c client.Client, namespace string, n int, zones []string) error {
	if n < 0 || n > Max {
		return fmt.Errorf("%d local hosts are not possible: choose 0 to %d", n, Max)
	}
	if len(zones) == 0 {
		return errors.New("local hosts need at least one zone")
	}
	list := &infrav1.CapstanHostList{}
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing hosts: %w", err)
	}
	create, remove := plan(list.Items, n)
	for _, number := range create {
		host := &infrav1.CapstanHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name(number)},
			Spec:       infrav1.CapstanHostSpec{Zone: zones[(number-1)%len(zones)], Supplier: infrav1.SupplierDock},
		}
		if err := c.Create(ctx, host); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("registering host %s: %w", host.Name, err)
		}
	}
	for _, host := range remove {
		// If it changed since it was listed, it may be claimed now: the next call looks again.
		err := c.Delete(ctx, host, client.Preconditions{UID: &host.UID, ResourceVersion: &host.ResourceVersion})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("removing host %s: %w", host.Name, err)
		}
	}
	return nil
}

// plan returns the numbers of the hosts to register, and the hosts to remove.
func plan(hosts []infrav1.CapstanHost, n int) (create []int, remove []*infrav1.CapstanHost) {
	var exist []int
	for i := range hosts {
		number, ours := numberOf(&hosts[i])
		if !ours {
			continue
		}
		exist = append(exist, number)
		if number > n && hosts[i].Spec.Claim == nil && hosts[i].DeletionTimestamp.IsZero() {
			remove = append(remove, &hosts[i])
		}
	}
	for number := 1; number <= n; number++ {
		if !slices.Contains(exist, number) {
			create = append(create, number)
		}
	}
	return create, remove
}

func name(number int) string { return fmt.Sprintf("%s%02d", prefix, number) }

// numberOf returns the number of a host that Ensure has registered.
func numberOf(host *infrav1.CapstanHost) (int, bool) {
	digits, ok := strings.CutPrefix(host.Name, prefix)
	if !ok || host.Spec.Supplier != infrav1.SupplierDock {
		return 0, false
	}
	number, err := strconv.Atoi(digits)
	return number, err == nil && number > 0 && name(number) == host.Name
}
