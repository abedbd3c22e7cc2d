// Package podroute knows the routes that capstan-net makes on a Node, so that the agent, which doesn't carry that
// program, can remove them.
package podroute

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Protocol marks the routes of capstan-net in the kernel, so that nobody else's are removed.
const Protocol = 0xca

// List returns the routes of capstan-net: it makes them for IPv4, in the main table.
func List() ([]netlink.Route, error) {
	all, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: Protocol},
		netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return nil, fmt.Errorf("listing the routes of capstan-net: %w", err)
	}
	return all, nil
}

// Delete removes the routes of capstan-net.
func Delete() error {
	all, err := List()
	errs := []error{err}
	for _, r := range all {
		if err := netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("deleting route %s: %w", r.Dst, err))
		}
	}
	return errors.Join(errs...)
}
