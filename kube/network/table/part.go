package table

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Part is a condition of a rule, or the action taken if all conditions hold.
type Part struct {
	text  string
	exprs []expr.Any
}

// Registers of the kernel's rules: the first one of 16 bytes, and the registers of 4 bytes that it consists of.
const (
	register      = unix.NFT_REG_1
	registerWord2 = unix.NFT_REG32_02
)

// Offsets in packet headers.
const (
	etherSource = 6
	saddr4      = 12
	daddr4      = 16
	saddr6      = 8
	daddr6      = 24
	portDest    = 2
)

// In matches packets that came in through this link. A name that ends in * matches all names with that prefix.
func In(link string) Part { return named("iifname", expr.MetaKeyIIFNAME, expr.CmpOpEq, link) }

// NotIn matches packets that came in through any other link.
func NotIn(link string) Part { return named("iifname !=", expr.MetaKeyIIFNAME, expr.CmpOpNeq, link) }

// Out matches packets that leave through a link.
func Out(link string) Part { return named("oifname", expr.MetaKeyOIFNAME, expr.CmpOpEq, link) }

// NotOut matches packets that leave through any other link.
func NotOut(link string) Part { return named("oifname !=", expr.MetaKeyOIFNAME, expr.CmpOpNeq, link) }

func named(text string, key expr.MetaKey, op expr.CmpOp, link string) Part {
	data := []byte(link + "\x00")
	if prefix, many := strings.CutSuffix(link, "*"); many {
		data = []byte(prefix)
	} else {
		data = append(data, make([]byte, unix.IFNAMSIZ-len(data))...)
	}
	return Part{fmt.Sprintf("%s %q", text, link), []expr.Any{
		&expr.Meta{Key: key, Register: register},
		&expr.Cmp{Op: op, Register: register, Data: data},
	}}
}

// From matches packets from a range.
func From(p netip.Prefix) Part {
	return address("saddr", p, expr.CmpOpEq, saddr4, saddr6)
}

// NotFrom matches packets of the range's family from outside the range.
func NotFrom(p netip.Prefix) Part {
	return address("saddr !=", p, expr.CmpOpNeq, saddr4, saddr6)
}

// To matches packets to a range.
func To(p netip.Prefix) Part {
	return address("daddr", p, expr.CmpOpEq, daddr4, daddr6)
}

func address(word string, p netip.Prefix, op expr.CmpOp, offset4, offset6 uint32) Part {
	p = p.Masked()
	exprs, offset, name := family(p.Addr()), offset4, "ip"
	if p.Addr().Is6() {
		offset, name = offset6, "ip6"
	}
	size := uint32(p.Addr().BitLen() / 8)
	exprs = append(exprs, &expr.Payload{
		DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size,
	})
	if !p.IsSingleIP() {
		exprs = append(exprs, &expr.Bitwise{
			SourceRegister: register, DestRegister: register, Len: size, Mask: mask(p), Xor: make([]byte, size),
		})
	}
	exprs = append(exprs, &expr.Cmp{Op: op, Register: register, Data: p.Addr().AsSlice()})
	return Part{fmt.Sprintf("%s %s %s", name, word, p), exprs}
}

// family matches packets of an address's family.
func family(a netip.Addr) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{protocolFamily(a)}},
	}
}

func protocolFamily(a netip.Addr) byte {
	if a.Is4() {
		return unix.NFPROTO_IPV4
	}
	return unix.NFPROTO_IPV6
}

func mask(p netip.Prefix) []byte {
	m := make([]byte, p.Addr().BitLen()/8)
	for i := range p.Bits() {
		m[i/8] |= 0x80 >> (i % 8)
	}
	return m
}

// Protocol is a protocol with ports.
type Protocol byte

// The protocols.
const (
	TCP  Protocol = unix.IPPROTO_TCP
	UDP  Protocol = unix.IPPROTO_UDP
	SCTP Protocol = unix.IPPROTO_SCTP
)

func (p Protocol) String() string {
	return map[Protocol]string{TCP: "tcp", UDP: "udp", SCTP: "sctp"}[p]
}

// Port matches packets of a protocol to a port.
func Port(p Protocol, port uint16) Part {
	return Part{fmt.Sprintf("%s dport %d", p, port), []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{byte(p)}},
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: portDest, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: binary.BigEndian.AppendUint16(nil, port)},
	}}
}

// ToLocal matches packets to an address of this host.
func ToLocal() Part {
	return Part{"fib daddr type local", []expr.Any{
		&expr.Fib{Register: register, ResultADDRTYPE: true, FlagDADDR: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)},
	}}
}

// Strange matches packets that came in through another link than the one that leads back to their sender.
func Strange() Part {
	return Part{"fib saddr . iif missing", []expr.Any{
		&expr.Fib{Register: register, ResultOIF: true, FlagSADDR: true, FlagIIF: true, FlagPRESENT: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{0}},
	}}
}

// translatedTo is the bit in a connection's status that marks a translated destination.
const translatedTo = 1 << 5

// Translated matches packets of connections whose destination was translated.
func Translated() Part {
	return Part{"ct status dnat", []expr.Any{
		&expr.Ct{Register: register, Key: expr.CtKeySTATUS},
		&expr.Bitwise{
			SourceRegister: register, DestRegister: register, Len: 4,
			Mask: binaryutil.NativeEndian.PutUint32(translatedTo), Xor: make([]byte, 4),
		},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: make([]byte, 4)},
	}}
}

// FromAny matches packets from the addresses in a set.
func FromAny(set string) Part {
	return Part{"ip saddr @" + set, append(family(netip.IPv4Unspecified()),
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: saddr4, Len: 4},
		&expr.Lookup{SourceRegister: register, SetName: set},
	)}
}

// SenderIn matches packets whose MAC and source address are in a set of IPv4 or IPv6 senders.
func SenderIn(set string, v6 bool) Part {
	exprs, text := family(netip.IPv4Unspecified()), "ether saddr . ip saddr"
	offset, size := uint32(saddr4), uint32(4)
	if v6 {
		exprs, text = family(netip.IPv6Unspecified()), "ether saddr . ip6 saddr"
		offset, size = saddr6, 16
	}
	return Part{text + " @" + set, append(exprs,
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseLLHeader, Offset: etherSource, Len: 6},
		&expr.Payload{DestRegister: registerWord2, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size},
		&expr.Lookup{SourceRegister: register, SetName: set},
	)}
}

// Actions.
var (
	// Accept ends the chain.
	Accept = Part{"accept", []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}}
	// Drop drops the packet.
	Drop = Part{"drop", []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}}
	// Untracked exempts the packet from connection tracking.
	Untracked = Part{"notrack", []expr.Any{&expr.Notrack{}}}
	// Masquerade replaces the packet's source by this host's address.
	Masquerade = Part{"masquerade", []expr.Any{&expr.Masq{}}}
)

// SendFrom replaces the packet's source address.
func SendFrom(a netip.Addr) Part {
	return Part{"snat to " + a.String(), []expr.Any{
		&expr.Immediate{Register: register, Data: a.AsSlice()},
		&expr.NAT{Type: expr.NATTypeSourceNAT, Family: uint32(protocolFamily(a)), RegAddrMin: register},
	}}
}

// SendTo replaces the packet's destination address and port.
func SendTo(to netip.AddrPort) Part {
	const portRegister = unix.NFT_REG_2
	return Part{"dnat to " + to.String(), []expr.Any{
		&expr.Immediate{Register: register, Data: to.Addr().AsSlice()},
		&expr.Immediate{Register: portRegister, Data: binary.BigEndian.AppendUint16(nil, to.Port())},
		&expr.NAT{
			Type: expr.NATTypeDestNAT, Family: uint32(protocolFamily(to.Addr())),
			RegAddrMin: register, RegProtoMin: portRegister, Specified: true,
		},
	}}
}
