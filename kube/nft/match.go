package nft

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// field is a value that a rule reads from a packet.
type field int

const (
	fieldSource field = iota
	fieldDestination
	fieldProtocol
	fieldPort
)

// fieldKind returns the type of a field.
func (r *rule) fieldKind(f field) kind {
	switch f {
	case fieldProtocol:
		return inetProto
	case fieldPort:
		return inetService
	}
	return r.address()
}

// load reads a field into a register.
func (r *rule) load(f field, register uint32) expr.Any {
	offsets, size := map[field]uint32{fieldSource: 12, fieldDestination: 16}, uint32(4)
	if r.family == unix.NFPROTO_IPV6 {
		offsets, size = map[field]uint32{fieldSource: 8, fieldDestination: 24}, 16
	}
	switch f {
	case fieldProtocol:
		return &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register}
	case fieldPort:
		return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
	}
	return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offsets[f], Len: size}
}

// field parses the name of a field.
func (r *rule) field() (field, error) {
	switch {
	case r.takes(r.ip(), "saddr"):
		return fieldSource, nil
	case r.takes(r.ip(), "daddr"):
		return fieldDestination, nil
	case r.takes("meta", "l4proto"):
		return fieldProtocol, nil
	case r.takes("th", "dport"):
		return fieldPort, nil
	}
	return 0, r.unexpected(r.ip() + " saddr, " + r.ip() + " daddr, meta l4proto or th dport")
}

// match parses a condition on fields: a lookup of one or several fields in a set, a lookup in a map that yields a
// verdict, or a comparison of one field with a value.
func (r *rule) match() error {
	var fields []field
	for {
		f, err := r.field()
		if err != nil {
			return err
		}
		fields = append(fields, f)
		if !r.takes(".") {
			break
		}
	}
	var t keyType
	words := 0
	for _, f := range fields {
		r.add(r.load(f, register(words)))
		k := r.fieldKind(f)
		t, words = append(t, k), words+(k.size+3)/4
	}
	switch {
	case r.takes("vmap"):
		return r.lookup(setType{t, true})
	case !r.done() && strings.HasPrefix(r.rest[0].text, "@"):
		return r.lookup(setType{t, false})
	case len(fields) > 1:
		return r.unexpected("vmap or a set")
	}
	op := expr.CmpOpEq
	if r.takes("!=") {
		op = expr.CmpOpNeq
	}
	if t[0] == r.address() {
		return r.compareAddress(op)
	}
	if t[0] != inetProto || op != expr.CmpOpEq {
		return r.unexpected("vmap or a set")
	}
	data, err := inetProto.encode(r.next())
	r.add(&expr.Cmp{Op: op, Register: first, Data: data})
	return err
}

// lookup adds a lookup in a set, or in a map that yields a verdict.
func (r *rule) lookup(want setType) error {
	name, err := r.set()
	if err != nil {
		return err
	}
	t, err := r.setNamed(name)
	if err != nil {
		return err
	}
	if t.isMap != want.isMap || !slices.Equal(t.key, want.key) {
		return fmt.Errorf("%s is a %s of %s, and used as a %s of %s", name, t.word(), t.key, want.word(), want.key)
	}
	r.add(&expr.Lookup{SourceRegister: first, SetName: name, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: t.isMap})
	return nil
}

// port parses a condition on a protocol's port.
func (r *rule) port() error {
	protocol, _ := inetProto.encode(r.next()) // the caller has checked the protocol
	if err := r.must("dport"); err != nil {
		return err
	}
	data, err := inetService.encode(r.next())
	r.add(
		r.load(fieldProtocol, first), &expr.Cmp{Op: expr.CmpOpEq, Register: first, Data: protocol},
		r.load(fieldPort, first), &expr.Cmp{Op: expr.CmpOpEq, Register: first, Data: data},
	)
	return err
}

// compareAddress adds a comparison of the loaded address with an address, a range, or a list in braces.
func (r *rule) compareAddress(op expr.CmpOp) error {
	if r.takes("{") {
		return r.addressList(op)
	}
	p, err := r.prefix()
	if err == nil {
		r.compare(op, p)
	}
	return err
}

// compare adds a comparison of the loaded address with a range.
func (r *rule) compare(op expr.CmpOp, p netip.Prefix) {
	if !p.IsSingleIP() {
		size := r.address().size
		r.add(&expr.Bitwise{
			SourceRegister: first, DestRegister: first, Len: uint32(size), Mask: mask(p), Xor: make([]byte, size),
		})
	}
	r.add(&expr.Cmp{Op: op, Register: first, Data: p.Addr().AsSlice()})
}

// prefix parses an address or a range.
func (r *rule) prefix() (netip.Prefix, error) {
	text := r.next()
	p, err := netip.ParsePrefix(text)
	if err != nil {
		var a netip.Addr
		a, err = netip.ParseAddr(text)
		p = netip.PrefixFrom(a, a.BitLen())
	}
	if err != nil || p.Addr().BitLen() != r.address().size*8 || p.Addr().Zone() != "" {
		return p, fmt.Errorf("%q is not an address or range of the rule's address family", text)
	}
	return p.Masked(), nil
}

func mask(p netip.Prefix) []byte {
	m := make([]byte, p.Addr().BitLen()/8)
	for i := range p.Bits() {
		m[i/8] |= 0x80 >> (i % 8)
	}
	return m
}

// addressList adds a comparison of the loaded address with a list of ranges, up to the closing brace.
func (r *rule) addressList(op expr.CmpOp) error {
	var ranges []netip.Prefix
	for {
		p, err := r.prefix()
		if err != nil {
			return err
		}
		ranges = append(ranges, p)
		if r.takes("}") {
			break
		}
		if err := r.must(","); err != nil {
			return err
		}
	}
	if len(ranges) == 1 {
		r.compare(op, ranges[0])
		return nil
	}
	id, err := r.unnamedSet("__set%d", keyType{r.address()}, unix.NFT_SET_INTERVAL, nil, spans(ranges))
	r.add(&expr.Lookup{SourceRegister: first, SetName: "__set%d", SetID: id, Invert: op == expr.CmpOpNeq})
	return err
}

// spans returns the starts and ends of ranges, sorted and without overlaps, as interval sets need them.
func spans(ranges []netip.Prefix) []element {
	slices.SortFunc(ranges, netip.Prefix.Compare)
	var all []element
	var end netip.Addr // the first address after the last range; invalid if there is none
	for i, p := range ranges {
		if i > 0 && (!end.IsValid() || p.Addr().Less(end)) {
			continue // this range is inside the previous one: CIDR ranges never overlap partially
		}
		if i > 0 && p.Addr() == end {
			all = all[:len(all)-1] // this range continues the previous one
		} else {
			all = append(all, element{key: p.Addr().AsSlice()})
		}
		if end = last(p).Next(); end.IsValid() {
			all = append(all, element{key: end.AsSlice(), end: true})
		}
	}
	return all
}

// last returns the last address of a range.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i, m := range mask(p) {
		b[i] |= ^m
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// maxChoices is the maximum number of backends in a random choice. A Service has fewer endpoints.
const maxChoices = 1 << 20

// random parses a random choice: "2 vmap { 0 : goto A , 1 : goto B }", or a choice among addresses with ports.
func (r *rule) random(word string) error {
	choices, err := r.number(32)
	if err != nil {
		return err
	}
	if choices == 0 || choices > maxChoices {
		return fmt.Errorf("a choice among %d elements is not supported", choices)
	}
	if err := r.must(word, "{"); err != nil {
		return err
	}
	var data keyType
	if word == "map" {
		data = keyType{r.address(), inetService}
	}
	var all []element
	for {
		e, err := r.choice(data)
		if err != nil {
			return err
		}
		all = append(all, e)
		if r.takes("}") {
			break
		}
		if err := r.must(","); err != nil {
			return err
		}
	}
	if len(all) != int(choices) {
		return fmt.Errorf("a choice among %d has %d elements", choices, len(all))
	}
	id, err := r.unnamedSet("__map%d", keyType{integer}, unix.NFT_SET_MAP, data, all)
	look := &expr.Lookup{SourceRegister: first, SetName: "__map%d", SetID: id, IsDestRegSet: true}
	r.add(&expr.Numgen{Register: first, Modulus: uint32(choices), Type: unix.NFT_NG_RANDOM}, look)
	if data != nil {
		look.DestRegister = first
		r.add(&expr.NAT{
			Type: expr.NATTypeDestNAT, Family: uint32(r.family),
			RegAddrMin: first, RegProtoMin: register(r.address().size / 4),
		})
	}
	return err
}

// choice parses one element of a choice.
func (r *rule) choice(data keyType) (element, error) {
	number, err := r.number(32)
	if err != nil {
		return element{}, err
	}
	e := element{key: native(uint32(number))}
	if err := r.must(":"); err != nil {
		return e, err
	}
	if data == nil {
		v, err := r.words.verdict()
		e.data = v.attributes()
		return e, err
	}
	parts, err := r.parts()
	if err != nil {
		return e, err
	}
	value, err := data.encode(parts)
	e.data.put(unix.NFTA_DATA_VALUE, value)
	return e, err
}

// unnamedSet creates a set or a map that only this rule uses, and returns its number. data is the type of a map's
// values, or nil if the values are verdicts.
func (r *rule) unnamedSet(name string, key keyType, flags uint32, data keyType, all []element) (uint32, error) {
	r.unnamed++
	var set, desc, notes attributes
	set.text(unix.NFTA_SET_TABLE, r.table)
	set.text(unix.NFTA_SET_NAME, name)
	set.number(unix.NFTA_SET_FLAGS, flags|unix.NFT_SET_ANONYMOUS|unix.NFT_SET_CONSTANT)
	set.number(unix.NFTA_SET_KEY_TYPE, key.number())
	set.number(unix.NFTA_SET_KEY_LEN, uint32(key.size()))
	set.number(unix.NFTA_SET_ID, r.unnamed)
	order := uint32(networkOrder)
	if flags&unix.NFT_SET_MAP != 0 {
		order = hostOrder
		kind := uint32(unix.NFT_DATA_VERDICT)
		if data != nil {
			kind = data.number()
			set.number(unix.NFTA_SET_DATA_LEN, uint32(data.size()))
		}
		set.number(unix.NFTA_SET_DATA_TYPE, kind)
	}
	desc.number(unix.NFTA_SET_DESC_SIZE, uint32(len(all)))
	set.nest(unix.NFTA_SET_DESC, desc)
	notes.note(noteKeyOrder, native(order))
	if data != nil {
		notes.note(noteDataOrder, native(networkOrder))
	}
	set.put(setUserData, notes)
	r.send(unix.NFT_MSG_NEWSET, set)
	for len(all) > 0 {
		var message, elements attributes
		message.text(unix.NFTA_SET_ELEM_LIST_TABLE, r.table)
		message.text(unix.NFTA_SET_ELEM_LIST_SET, name)
		message.number(unix.NFTA_SET_ELEM_LIST_SET_ID, r.unnamed)
		for len(all) > 0 && len(elements) < maxElementsBytes {
			elements.nest(unix.NFTA_LIST_ELEM, all[0].attributes())
			all = all[1:]
		}
		message.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS, elements)
		r.send(unix.NFT_MSG_NEWSETELEM, message)
	}
	if len(r.messages) > maxMessages {
		return 0, errors.New("the transaction has too many commands")
	}
	return r.unnamed, nil
}

// maxMessages is the maximum number of netlink messages in a transaction.
const maxMessages = 1 << 22
