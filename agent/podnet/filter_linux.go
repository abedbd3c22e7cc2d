package podnet

import (
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// masquerade replaces the table atomically. Packets from this Node's pods to anything but pods leave with the Node's
// address.
func masquerade(own, pods netip.Prefix) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	table := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: Table}
	c.AddTable(table) // so that there is a table to delete
	c.DelTable(table)
	c.AddTable(table)
	chain := c.AddChain(&nftables.Chain{
		Name: "postrouting", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting,
		Priority: nftables.ChainPriorityNATSource,
	})
	const source, destination = 12, 16 // offsets in the header of IPv4
	exprs := append(matches(source, own, expr.CmpOpEq), matches(destination, pods, expr.CmpOpNeq)...)
	multicast := netip.MustParsePrefix("224.0.0.0/4")
	exprs = append(exprs, matches(destination, multicast, expr.CmpOpNeq)...)
	c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(exprs, &expr.Masq{})})
	return c.Flush()
}

// matches compares an address in the header with a range.
func matches(offset uint32, p netip.Prefix, op expr.CmpOp) []expr.Any {
	mask := make([]byte, 4)
	for bit := range p.Bits() {
		mask[bit/8] |= 0x80 >> (bit % 8)
	}
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: mask, Xor: make([]byte, 4)},
		&expr.Cmp{Op: op, Register: 1, Data: p.Masked().Addr().AsSlice()},
	}
}
