// Package podroute lists and deletes a Node's routes and routing rules to the pods of other Nodes. capstan-net and the
// bundle of local hosts create them; the agent, which contains neither, removes them.
package podroute

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Protocol marks these routes and rules in the kernel, so that no others are removed.
const Protocol = 0xca

// List returns the routes, of all tables, IPv4 and IPv6.
func List() ([]netlink.Route, error) {
	all, err := netlink.RouteListFiltered(netlink.FAMILY_ALL,
		&netlink.Route{Protocol: Protocol, Table: unix.RT_TABLE_UNSPEC},
		netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("listing the routes of the pod network: %w", err)
	}
	return all, nil
}

// Rules returns the routing rules.
func Rules() ([]netlink.Rule, error) {
	all, err := netlink.RuleList(netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("listing the routing rules of the pod network: %w", err)
	}
	return slices.DeleteFunc(all, func(r netlink.Rule) bool { return r.Protocol != Protocol }), nil
}

// Delete removes the routes and the rules.
func Delete() error {
	routes, err := List()
	rules, ruleErr := Rules()
	errs := []error{err, ruleErr}
	for _, r := range routes {
		if err := netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("deleting route %s: %w", r.Dst, err))
		}
	}
	for _, r := range rules {
		if err := netlink.RuleDel(&r); err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("deleting the routing rule for packets from %s: %w", r.Src, err))
		}
	}
	return errors.Join(errs...)
}
