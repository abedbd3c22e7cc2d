package local

import (
	"cmp"
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/provider/inventory"
)

// Share is one namespace's share of the local hosts. Its JSON form is stable.
type Share struct {
	Namespace string `json:"namespace"`
	// Hosts is the number of hosts registered in the namespace; InUse is how many of them a machine claims.
	Hosts int `json:"hosts"`
	InUse int `json:"inUse"`
	// Waits is how many more hosts the clusters in the namespace want but can't have now.
	Waits int `json:"waits"`
}

// Shares returns how the local hosts are shared, sorted by namespace. It leaves out namespaces that neither have hosts
// nor want any.
func Shares(ctx context.Context, c client.Reader) ([]Share, error) {
	list := &infrav1.CapstanHostList{}
	err := c.List(ctx, list)
	var demands []inventory.Demand
	if err == nil {
		demands, err = inventory.Look(ctx, c, list.Items)
	}
	if err != nil {
		return nil, hint.Errorf("run: capstan status", "reading the shares of local hosts: %w", err)
	}
	return sharesOf(list.Items, demands), nil
}

// sharesOf counts hosts and demands. Pure.
func sharesOf(hosts []infrav1.CapstanHost, demands []inventory.Demand) []Share {
	shares := map[string]*Share{}
	of := func(namespace string) *Share {
		if shares[namespace] == nil {
			shares[namespace] = &Share{Namespace: namespace}
		}
		return shares[namespace]
	}
	for i := range hosts {
		if !inventory.IsOfBudget(&hosts[i]) {
			continue
		}
		share := of(hosts[i].Namespace)
		share.Hosts++
		if hosts[i].Spec.Claim != nil {
			share.InUse++
		}
	}
	for _, d := range demands {
		if !d.Asks {
			continue
		}
		share := of(d.Namespace)
		share.Waits = max(0, d.Wants-share.Hosts)
	}
	all := make([]Share, 0, len(shares))
	for _, share := range shares {
		all = append(all, *share)
	}
	slices.SortFunc(all, func(a, b Share) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return all
}
