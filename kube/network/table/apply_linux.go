package table

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// applyLimit bounds the wait for the kernel.
const applyLimit = 10 * time.Second

// chunk is the number of set entries in one message, whose length is limited to 16 bits.
const chunk = 200

// Apply replaces the table in this thread's network namespace by t. The change is atomic.
func Apply(t Table) error {
	return transaction(t.Name, "replacing", func(conn *nftables.Conn, owned *nftables.Table) error {
		conn.AddTable(owned)
		for _, s := range t.Sets {
			if err := addSet(conn, owned, s); err != nil {
				return err
			}
		}
		accept := nftables.ChainPolicyAccept
		for _, c := range t.Chains {
			kind := nftables.ChainTypeFilter
			if c.NAT {
				kind = nftables.ChainTypeNAT
			}
			priority := nftables.ChainPriority(c.Priority)
			added := conn.AddChain(&nftables.Chain{
				Name: c.Name, Table: owned, Hooknum: hooks[c.Hook], Priority: &priority, Type: kind, Policy: &accept,
			})
			for _, r := range c.Rules {
				rule := &nftables.Rule{Table: owned, Chain: added}
				for _, part := range r {
					rule.Exprs = append(rule.Exprs, part.exprs...)
				}
				conn.AddRule(rule)
			}
		}
		return nil
	})
}

var hooks = map[Hook]*nftables.ChainHook{
	Prerouting: nftables.ChainHookPrerouting, Input: nftables.ChainHookInput, Forward: nftables.ChainHookForward,
	Output: nftables.ChainHookOutput, Postrouting: nftables.ChainHookPostrouting,
}

// Remove removes a table if it exists.
func Remove(name string) error {
	return transaction(name, "removing", func(*nftables.Conn, *nftables.Table) error { return nil })
}

// transaction atomically removes a table and executes change.
func transaction(name, doing string, change func(*nftables.Conn, *nftables.Table) error) error {
	conn, err := connect()
	if err != nil {
		return err
	}
	defer conn.CloseLasting()
	owned := &nftables.Table{Name: name, Family: nftables.TableFamilyINet}
	conn.AddTable(owned) // so that there is a table to delete
	conn.DelTable(owned)
	if err := change(conn, owned); err != nil {
		return fmt.Errorf("%s the packet rules %s: %w", doing, name, err)
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("%s the packet rules %s: %w", doing, name, explain(err))
	}
	return nil
}

func connect() (*nftables.Conn, error) {
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error {
		return c.SetDeadline(time.Now().Add(applyLimit))
	}))
	if err != nil {
		return nil, fmt.Errorf("connecting to the kernel's packet rules: %w", explain(err))
	}
	return conn, nil
}

// ErrUnavailable is wrapped by errors that mean that the kernel lacks nftables.
var ErrUnavailable = errors.New("the kernel lacks nftables: load the modules nf_tables, nft_nat, nft_masq " +
	"and nft_fib_inet")

func explain(err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("%w (%w)", ErrUnavailable, err)
	}
	return err
}

// Exists reports whether a table of this name exists.
func Exists(name string) (bool, error) {
	conn, err := connect()
	if err != nil {
		return false, err
	}
	defer conn.CloseLasting()
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return false, fmt.Errorf("listing packet rules: %w", explain(err))
	}
	for _, t := range tables {
		if t.Name == name {
			return true, nil
		}
	}
	return false, nil
}

func addSet(conn *nftables.Conn, owned *nftables.Table, s Set) error {
	set := &nftables.Set{Table: owned, Name: s.Name, KeyType: nftables.TypeIPAddr}
	var elements []nftables.SetElement
	for _, a := range s.Addresses {
		elements = append(elements, nftables.SetElement{Key: a.AsSlice()})
	}
	if s.Addresses == nil {
		kind := nftables.TypeIPAddr
		if s.V6 {
			kind = nftables.TypeIP6Addr
		}
		key, err := nftables.ConcatSetType(nftables.TypeEtherAddr, kind)
		if err != nil {
			return err
		}
		set.KeyType, set.Interval, set.Concatenation = key, true, true
	}
	for _, e := range s.Senders {
		mac := append(slices.Clone(e.MAC), 0, 0) // the parts of a key are padded to multiples of 4 bytes
		from := e.From.Masked()
		elements = append(elements, nftables.SetElement{
			Key:    slices.Concat(mac, from.Addr().AsSlice()),
			KeyEnd: slices.Concat(mac, last(from).AsSlice()),
		})
	}
	if err := conn.AddSet(set, nil); err != nil {
		return err
	}
	for part := range slices.Chunk(elements, chunk) {
		if err := conn.SetAddElements(set, part); err != nil {
			return err
		}
	}
	return nil
}

// last returns the last address of a range.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
