package baseline

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// links returns the network interfaces.
func links() (map[string]int, error) {
	list, err := netlink.LinkList()
	all := map[string]int{}
	for _, l := range list {
		all[fmt.Sprintf("%s (%s)", l.Attrs().Name, l.Type())]++
	}
	return all, err
}

// addresses returns the permanent addresses. An address with a lifetime comes from a DHCP server or a router and may
// change, so any address in its network counts as the same.
func addresses() (map[string]int, error) {
	list, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	all := map[string]int{}
	for _, a := range list {
		if a.IP.IsLinkLocalUnicast() {
			continue
		}
		link, err := netlink.LinkByIndex(a.LinkIndex)
		if err != nil {
			continue // deleted meanwhile
		}
		text := a.IPNet.String()
		if a.Flags&unix.IFA_F_PERMANENT == 0 {
			text = fmt.Sprintf(
				"%s, one for a time",
				(&netlink.Addr{IPNet: netlink.NewIPNet(a.IP.Mask(a.Mask))}).IPNet.IP,
			)
			all[text+" on "+link.Attrs().Name] = 1
			continue
		}
		all[text+" on "+link.Attrs().Name]++
	}
	return all, err
}

// routes returns the routes of all tables, except those that the kernel creates for addresses and those that routers
// announce.
func routes() (map[string]int, error) {
	all := map[string]int{}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		list, err := netlink.RouteListFiltered(
			family,
			&netlink.Route{Table: unix.RT_TABLE_UNSPEC},
			netlink.RT_FILTER_TABLE,
		)
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			if r.Protocol == unix.RTPROT_KERNEL || r.Protocol == unix.RTPROT_RA || r.Table == unix.RT_TABLE_LOCAL {
				continue
			}
			name := "none"
			if link, err := netlink.LinkByIndex(r.LinkIndex); err == nil {
				name = link.Attrs().Name
			}
			to := "default"
			if r.Dst != nil {
				to = r.Dst.String()
			}
			all[fmt.Sprintf("to %s by %v on %s in table %d", to, r.Gw, name, r.Table)]++
		}
	}
	return all, nil
}

// rules returns the tables of the packet filter, each with the digest of its rules. Tables that do nothing don't count.
func rules() (map[string]int, error) {
	c, err := nftables.New()
	if err != nil {
		return nil, err
	}
	all := map[string]int{}
	tables, err := c.ListTables()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) {
		return all, nil // the kernel has no nftables, so there are no rules
	}
	if err != nil {
		return nil, fmt.Errorf("reading the packet filter: %w", err)
	}
	chains, err := c.ListChains()
	if err != nil {
		return nil, fmt.Errorf("reading the chains of the packet filter: %w", err)
	}
	for _, table := range tables {
		text, err := activeRules(c, table, chains)
		if err != nil {
			return nil, err
		}
		if text != "" {
			sum := sha256.Sum256([]byte(text))
			short := hex.EncodeToString(sum[:4])
			all[fmt.Sprintf("table %s %s with other rules (%s)", family(table.Family), table.Name, short)]++
		}
	}
	return all, nil
}

// activeRules returns the rules of a table without counters, or an empty string if the table does nothing.
func activeRules(c *nftables.Conn, table *nftables.Table, chains []*nftables.Chain) (string, error) {
	var b strings.Builder
	for _, chain := range chains {
		if chain.Table.Name != table.Name || chain.Table.Family != table.Family {
			continue
		}
		rules, err := c.GetRules(table, chain)
		if err != nil {
			return "", fmt.Errorf("reading the rules of the packet filter: %w", err)
		}
		drops := chain.Policy != nil && *chain.Policy == nftables.ChainPolicyDrop
		if len(rules) == 0 && !drops {
			continue
		}
		fmt.Fprintf(&b, "chain %s drops %v\n", chain.Name, drops)
		for _, rule := range rules {
			for _, e := range rule.Exprs {
				if _, counts := e.(*expr.Counter); counts {
					continue
				}
				text, err := json.Marshal(e)
				if err != nil {
					return "", err
				}
				fmt.Fprintf(&b, "%T %s\n", e, text)
			}
			b.WriteString("\n")
		}
	}
	return b.String(), nil
}

func family(f nftables.TableFamily) string {
	switch f {
	case nftables.TableFamilyINet:
		return "inet"
	case nftables.TableFamilyIPv4:
		return "ip"
	case nftables.TableFamilyIPv6:
		return "ip6"
	case nftables.TableFamilyARP:
		return "arp"
	case nftables.TableFamilyNetdev:
		return "netdev"
	case nftables.TableFamilyBridge:
		return "bridge"
	}
	return fmt.Sprint(f)
}
