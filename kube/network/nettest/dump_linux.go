package nettest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Dump lists what tests create in the namespace: links, addresses, routes, rules, permanent neighbors and tables of
// packet rules. It omits what the kernel creates by itself, at its own time.
func (s *Space) Dump() string {
	s.t.Helper()
	var lines []string
	s.Do(func() (err error) {
		lines, err = Lines()
		return err
	})
	return strings.Join(lines, "\n") + "\n"
}

// Lines returns the sorted lines of Dump for the calling thread's network namespace.
func Lines() (lines []string, err error) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	list := func() error {
		links, err := netlink.LinkList()
		if err != nil {
			return err
		}
		names := map[int]string{}
		for _, l := range links {
			names[l.Attrs().Index] = l.Attrs().Name
			add("link %s %s", l.Attrs().Name, l.Type())
			neighbors, err := netlink.NeighList(l.Attrs().Index, unix.AF_UNSPEC)
			if err != nil {
				return err
			}
			for _, n := range neighbors {
				if n.State == unix.NUD_PERMANENT {
					add("neighbor %s on %s", n.IP, l.Attrs().Name)
				}
			}
		}
		addresses, err := netlink.AddrList(nil, unix.AF_UNSPEC)
		if err != nil {
			return err
		}
		for _, a := range addresses {
			if !a.IP.IsLinkLocalUnicast() {
				add("address %s on %s", a.IPNet, names[a.LinkIndex])
			}
		}
		routes, err := netlink.RouteListFiltered(unix.AF_UNSPEC, &netlink.Route{}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return err
		}
		for _, r := range routes {
			if r.Table != unix.RT_TABLE_LOCAL && r.Protocol != unix.RTPROT_KERNEL {
				add("route %s table %d on %s", r.Dst, r.Table, names[r.LinkIndex])
			}
		}
		rules, err := netlink.RuleList(unix.AF_UNSPEC)
		if err != nil {
			return err
		}
		for _, r := range rules {
			add("rule %s", r)
		}
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		tables, err := conn.ListTables()
		for _, t := range tables {
			add("packet rules %s", t.Name)
		}
		return err
	}
	err = list()
	slices.Sort(lines)
	return lines, err
}
