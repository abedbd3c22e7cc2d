package inventory

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Shortage returns, for a machine that found no host in a namespace, what happens next or what to do. It returns "" if
// the namespace has unclaimed hosts, if it does not ask for local hosts, or if the inventory can't be read.
func (k *Keeper) Shortage(ctx context.Context, namespace string) string {
	picture, err := k.picture(ctx)
	if err != nil {
		return ""
	}
	return shortage(picture, namespace)
}

// shortage compares what the namespace has with its share. It is pure.
func shortage(p Picture, namespace string) string {
	if !slices.ContainsFunc(p.Demands, func(d Demand) bool { return d.Namespace == namespace && d.Asks }) {
		return ""
	}
	d := newDecider(p)
	free, claimed := 0, 0
	for _, host := range d.of[namespace] {
		if host.Spec.Claim == nil {
			free++
		} else {
			claimed++
		}
	}
	share := d.d.Shares[namespace]
	switch {
	case free > 0:
		return ""
	case share > claimed+d.stuck[namespace]:
		return fmt.Sprintf("the namespace's share is %d of the %d local hosts: it gets them as soon as other "+
			"namespaces release them", share, d.Budget)
	case d.Budget == 0:
		return "there are no local hosts: run capstan up --hosts 3"
	}
	lacks := 0
	for _, demand := range p.Demands {
		if demand.Asks {
			lacks += max(0, demand.Wants-d.d.Shares[demand.Namespace])
		}
	}
	var users []string
	for _, other := range d.namespaces() {
		if n := d.d.Shares[other]; n > 0 {
			users = append(users, fmt.Sprintf("%s %d", other, n))
		}
	}
	return fmt.Sprintf("all %d local hosts are in use or reserved for clusters (%s): delete a cluster, or add hosts "+
		"with capstan up --hosts %d", d.Budget, strings.Join(users, ", "), d.Budget+max(lacks, 1))
}
