package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// rule is a rule while it is being parsed.
type rule struct {
	command
	exprs []expr.Any
}

// The register at which all values start.
const first = unix.NFT_REG_1

// register returns the register that starts this many 4-byte words after the first.
func register(words int) uint32 {
	if words%4 == 0 {
		return uint32(first + words/4)
	}
	return uint32(unix.NFT_REG32_00 + words)
}

func (r *rule) add(exprs ...expr.Any) { r.exprs = append(r.exprs, exprs...) }

func (c command) doRule() error {
	chain, err := c.name()
	if err != nil {
		return err
	}
	if c.verb != "add" {
		return c.unknown()
	}
	r := rule{command: c}
	for !c.done() && !c.sees("comment") {
		if err := r.statement(); err != nil {
			return err
		}
	}
	if r.exprs == nil {
		return errors.New("the rule is empty")
	}
	comment := ""
	if c.takes("comment") {
		if comment, err = c.quoted(); err != nil || len(comment) >= maxComment {
			return errors.Join(err, errors.New("want a short comment in quotes"))
		}
	}
	var data, list attributes
	for _, e := range r.exprs {
		one, err := expr.Marshal(c.family, e)
		if err != nil {
			return fmt.Errorf("encoding the rule: %w", err)
		}
		list.nest(unix.NFTA_LIST_ELEM, one)
	}
	data.text(unix.NFTA_RULE_TABLE, c.table)
	data.text(unix.NFTA_RULE_CHAIN, chain)
	data.nest(unix.NFTA_RULE_EXPRESSIONS, list)
	putComment(&data, unix.NFTA_RULE_USERDATA, noteComment, comment)
	c.send(unix.NFT_MSG_NEWRULE, data)
	return nil
}

// statement parses one condition or action.
func (r *rule) statement() error {
	switch {
	case r.sees("ip"), r.sees("ip6"), r.sees("meta"), r.sees("th"):
		return r.match()
	case r.sees("tcp"), r.sees("udp"), r.sees("sctp"):
		return r.port()
	case r.sees("iifname"):
		return r.incoming()
	case r.takes("ct", "state", "new"):
		return r.tracked(expr.CtKeySTATE, ctNew)
	case r.takes("ct", "status", "dnat"):
		return r.tracked(expr.CtKeySTATUS, ctTranslated)
	case r.takes("fib", "saddr", "type", "local"):
		return r.local(expr.Fib{FlagSADDR: true})
	case r.takes("fib", "daddr", "type", "local"):
		return r.local(expr.Fib{FlagDADDR: true})
	case r.takes("mark"):
		return r.mark()
	case r.takes("numgen", "random", "mod"):
		return r.random("vmap")
	case r.takes("dnat", "to"):
		return r.translate()
	case r.takes("dnat", r.ip(), "addr", ".", "port", "to", "numgen", "random", "mod"):
		return r.random("map")
	case r.takes("update"):
		return r.update()
	case r.takes("masquerade", "fully-random"):
		r.add(&expr.Masq{FullyRandom: true})
		return nil
	case r.takes("reject"):
		r.add(&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: r.unreachable()})
		return nil
	}
	v, err := r.words.verdict()
	if err != nil {
		return fmt.Errorf("%w, and not the beginning of a statement that kube-proxy needs", err)
	}
	r.add(&expr.Verdict{Kind: expr.VerdictKind(v.code), Chain: v.chain})
	return nil
}

// ip returns the name of the family in rules.
func (r *rule) ip() string {
	if r.family == unix.NFPROTO_IPV6 {
		return "ip6"
	}
	return "ip"
}

// address returns the kind of the family's addresses.
func (r *rule) address() kind {
	if r.family == unix.NFPROTO_IPV6 {
		return ipv6Addr
	}
	return ipv4Addr
}

// unreachable returns the family's code for a port where nobody listens.
func (r *rule) unreachable() uint8 {
	const port4, port6 = 3, 4
	if r.family == unix.NFPROTO_IPV6 {
		return port6
	}
	return port4
}

// Bits of a connection's state and status.
const (
	ctNew        = 1 << 3
	ctTranslated = 1 << 5
)

func native(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// tracked adds the condition that the connection has a bit.
func (r *rule) tracked(key expr.CtKey, bit uint32) error {
	r.add(&expr.Ct{Register: first, Key: key}, and(bit), &expr.Cmp{Op: expr.CmpOpNeq, Register: first, Data: native(0)})
	return nil
}

// and keeps only these bits of the register.
func and(bits uint32) expr.Any {
	return &expr.Bitwise{SourceRegister: first, DestRegister: first, Len: 4, Mask: native(bits), Xor: native(0)}
}

// local adds the condition that an address belongs to this host.
func (r *rule) local(f expr.Fib) error {
	f.Register, f.ResultADDRTYPE = first, true
	r.add(&f, &expr.Cmp{Op: expr.CmpOpEq, Register: first, Data: native(unix.RTN_LOCAL)})
	return nil
}

// mark parses a comparison with, or a change of, bits of the packet's mark.
func (r *rule) mark() error {
	load := &expr.Meta{Key: expr.MetaKeyMARK, Register: first}
	if r.takes("and") {
		bits, err := r.number(32)
		if err != nil {
			return err
		}
		op := expr.CmpOpNeq
		if r.takes("==") {
			op = expr.CmpOpEq
		} else if err := r.must("!="); err != nil {
			return err
		}
		r.add(load, and(uint32(bits)), &expr.Cmp{Op: op, Register: first, Data: native(0)})
		return r.must("0")
	}
	if err := r.must("set", "mark"); err != nil {
		return err
	}
	op := r.next()
	bits, err := r.number(32)
	if err != nil {
		return err
	}
	change := &expr.Bitwise{SourceRegister: first, DestRegister: first, Len: 4, Xor: native(uint32(bits))}
	switch op {
	case "or":
		change.Mask = native(^uint32(bits))
	case "xor":
		change.Mask = native(^uint32(0))
	default:
		return fmt.Errorf("want or, xor; not %q", op)
	}
	r.add(load, change, &expr.Meta{Key: expr.MetaKeyMARK, Register: first, SourceRegister: true})
	return nil
}

// incoming parses a condition on the incoming link. A name that ends in * matches all names with that prefix.
func (r *rule) incoming() error {
	r.next()
	op := expr.CmpOpEq
	if r.takes("!=") {
		op = expr.CmpOpNeq
	}
	link := r.next()
	if link == "" || len(link) >= unix.IFNAMSIZ {
		return fmt.Errorf("%q is not the name of a link", link)
	}
	data, many := strings.CutSuffix(link, "*")
	if !many {
		data += strings.Repeat("\x00", unix.IFNAMSIZ-len(link))
	}
	r.add(&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: first},
		&expr.Cmp{Op: op, Register: first, Data: []byte(data)})
	return nil
}

// translate parses the new destination of the packet, such as "10.0.0.1:80".
func (r *rule) translate() error {
	text := r.next()
	to, err := netip.ParseAddrPort(text)
	if err != nil || to.Addr().BitLen() != r.address().size*8 {
		return fmt.Errorf("%q is not an address and port of the rule's address family", text)
	}
	const port = unix.NFT_REG_2
	r.add(
		&expr.Immediate{Register: first, Data: to.Addr().AsSlice()},
		&expr.Immediate{Register: port, Data: binary.BigEndian.AppendUint16(nil, to.Port())},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(r.family), RegAddrMin: first, RegProtoMin: port},
	)
	return nil
}

// update parses "@set { ip saddr }", which adds the sender to a set or restarts its timeout.
func (r *rule) update() error {
	name, err := r.set()
	if err != nil {
		return err
	}
	t, err := r.setNamed(name)
	if err != nil {
		return err
	}
	if !slices.Equal(t.key, keyType{r.address()}) {
		return fmt.Errorf("set %s has keys of type %s, not addresses", name, t.key)
	}
	if err := r.must("{", r.ip(), "saddr", "}"); err != nil {
		return err
	}
	r.add(r.load(fieldSource, first),
		&expr.Dynset{SrcRegKey: first, SetName: name, Operation: unix.NFT_DYNSET_OP_UPDATE})
	return nil
}

// set parses the name of a set, "@name".
func (r *rule) set() (string, error) {
	text, ok := strings.CutPrefix(r.next(), "@")
	if !ok || !identifier.MatchString(text) || len(text) > maxName {
		return "", fmt.Errorf("want @ and the name of a set, not %q", text)
	}
	return text, nil
}
