package nft

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// kind is the type of one part of a key.
type kind struct {
	name   string
	number uint32 // nft's number for the kind, so that its lists show the right type
	size   int
}

var (
	integer     = kind{"integer", 4, 4}
	ipv4Addr    = kind{"ipv4_addr", 7, 4}
	ipv6Addr    = kind{"ipv6_addr", 8, 16}
	inetProto   = kind{"inet_proto", 12, 1}
	inetService = kind{"inet_service", 13, 2}

	kinds = []kind{ipv4Addr, ipv6Addr, inetProto, inetService}
)

// protocols are the protocols of Services.
var protocols = map[string]byte{"tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP, "sctp": unix.IPPROTO_SCTP}

// encode returns a value of this kind in network byte order.
func (k kind) encode(text string) ([]byte, error) {
	switch k {
	case ipv4Addr, ipv6Addr:
		if a, err := netip.ParseAddr(text); err == nil && a.BitLen() == k.size*8 && a.Zone() == "" {
			return a.AsSlice(), nil
		}
	case inetProto:
		if p, ok := protocols[text]; ok {
			return []byte{p}, nil
		}
	case inetService:
		if n, err := strconv.ParseUint(text, 10, 16); err == nil {
			return binary.BigEndian.AppendUint16(nil, uint16(n)), nil
		}
	}
	return nil, fmt.Errorf("%q is not of type %s", text, k.name)
}

// decode returns a value in the form of nft's JSON lists.
func (k kind) decode(data []byte) any {
	switch k {
	case ipv4Addr, ipv6Addr:
		a, _ := netip.AddrFromSlice(data)
		return a.String()
	case inetProto:
		for name, number := range protocols {
			if data[0] == number {
				return name
			}
		}
		return int(data[0])
	}
	return int(binary.BigEndian.Uint16(data))
}

// keyType is the type of a key, which may have several parts.
type keyType []kind

// parseKeyType parses a type such as "ipv4_addr . inet_proto . inet_service".
func parseKeyType(names []string) (keyType, error) {
	var t keyType
	for _, name := range names {
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown type %q", name)
		}
		t = append(t, kinds[i])
	}
	return t, nil
}

// kindBits is the number of bits of a type's number that each part takes.
const kindBits = 6

func (t keyType) number() (n uint32) {
	for _, k := range t {
		n = n<<kindBits | k.number
	}
	return n
}

// keyTypeOf returns the type with a number.
func keyTypeOf(n uint32) (keyType, error) {
	var t keyType
	for rest := n; rest != 0; rest >>= kindBits {
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.number == rest&(1<<kindBits-1) })
		if i < 0 {
			return nil, fmt.Errorf("keys of type %#x are not kube-proxy's", n)
		}
		t = append(t, kinds[i])
	}
	slices.Reverse(t)
	return t, nil
}

// size returns the size of a key. If it has several parts, each is padded.
func (t keyType) size() (n int) {
	if len(t) == 1 {
		return t[0].size
	}
	for _, k := range t {
		n += (k.size + 3) &^ 3
	}
	return n
}

// encode returns a key of this type.
func (t keyType) encode(parts []string) ([]byte, error) {
	if len(parts) != len(t) {
		return nil, fmt.Errorf("%q has %d parts, not %d as %s has", strings.Join(parts, " . "), len(parts), len(t), t)
	}
	var key []byte
	for i, k := range t {
		data, err := k.encode(parts[i])
		if err != nil {
			return nil, err
		}
		if len(t) > 1 {
			data = padded(data)
		}
		key = append(key, data...)
	}
	return key, nil
}

// decode returns a key in the form of nft's JSON lists.
func (t keyType) decode(key []byte) (any, error) {
	if len(key) < t.size() {
		return nil, fmt.Errorf("a key of type %s has %d bytes", t, len(key))
	}
	if len(t) == 1 {
		return t[0].decode(key[:t[0].size]), nil
	}
	var parts []any
	for _, k := range t {
		parts = append(parts, k.decode(key[:k.size]))
		key = key[(k.size+3)&^3:]
	}
	return map[string]any{"concat": parts}, nil
}

func (t keyType) String() string {
	var names []string
	for _, k := range t {
		names = append(names, k.name)
	}
	return strings.Join(names, " . ")
}

// setName identifies a set or map; both share one namespace.
type setName struct {
	family      byte
	table, name string
}

// setType is the type of a set's keys, and whether it is a map. The values of kube-proxy's maps are verdicts.
type setType struct {
	key   keyType
	isMap bool
}

func (t setType) word() string {
	if t.isMap {
		return "map"
	}
	return "set"
}

// verdicts maps names to verdicts. After jump and goto comes the name of a chain.
var verdicts = map[string]int32{
	"accept": 1, "drop": 0, "return": unix.NFT_RETURN, "jump": unix.NFT_JUMP, "goto": unix.NFT_GOTO,
}

// verdict decides what happens to a packet.
type verdict struct {
	code  int32
	chain string
}

// attributes returns the verdict as the data of an element or a rule.
func (v verdict) attributes() attributes {
	var inner, outer attributes
	inner.number(unix.NFTA_VERDICT_CODE, uint32(v.code))
	if v.chain != "" {
		inner.text(unix.NFTA_VERDICT_CHAIN, v.chain)
	}
	outer.nest(unix.NFTA_DATA_VERDICT, inner)
	return outer
}
