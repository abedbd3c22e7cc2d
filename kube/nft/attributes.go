package nft

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// attributes are the attributes of a netlink message.
type attributes []byte

// put adds an attribute. The length field of an attribute has 16 bits, so callers must bound what they add.
func (a *attributes) put(kind uint16, data []byte) {
	*a = binary.NativeEndian.AppendUint16(*a, uint16(unix.SizeofNlAttr+len(data)))
	*a = binary.NativeEndian.AppendUint16(*a, kind)
	*a = append(*a, padded(data)...)
}

func (a *attributes) text(kind uint16, s string) { a.put(kind, append([]byte(s), 0)) }

func (a *attributes) number(kind uint16, n uint32) {
	a.put(kind, binary.BigEndian.AppendUint32(nil, n))
}

func (a *attributes) nest(kind uint16, inner attributes) { a.put(kind|unix.NLA_F_NESTED, inner) }

// note adds a note, which nft stores together with an object: a comment, or how to show the object.
func (a *attributes) note(kind byte, data []byte) {
	*a = append(append(*a, kind, byte(len(data))), data...)
}

// padded returns data padded to a multiple of 4 bytes, as attributes and parts of a key must be.
func padded(data []byte) []byte {
	return append(slices.Clone(data), make([]byte, -len(data)&3)...)
}

// each calls f with each attribute and stops at one whose length does not fit.
func each(data []byte, f func(kind uint16, value []byte)) {
	for len(data) >= unix.SizeofNlAttr {
		size := int(binary.NativeEndian.Uint16(data))
		if size < unix.SizeofNlAttr || size > len(data) {
			return
		}
		f(binary.NativeEndian.Uint16(data[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), data[unix.SizeofNlAttr:size])
		data = data[min(len(data), (size+3)&^3):]
	}
}

// value returns the attribute of a kind, or nil.
func value(data []byte, kind uint16) (found []byte) {
	each(data, func(k uint16, v []byte) {
		if k == kind {
			found = v
		}
	})
	return found
}

// word returns the attribute of a kind as text.
func word(data []byte, kind uint16) string {
	text := value(data, kind)
	if i := slices.Index(text, 0); i >= 0 {
		text = text[:i]
	}
	return string(text)
}

// number32 returns the attribute of a kind as a number, or 0.
func number32(data []byte, kind uint16) uint32 {
	if v := value(data, kind); len(v) == 4 {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

// noted returns the note of a kind that is stored together with an object.
func noted(notes []byte, kind byte) []byte {
	for len(notes) >= 2 {
		size := int(notes[1])
		if size > len(notes)-2 {
			return nil
		}
		if notes[0] == kind {
			return notes[2 : 2+size]
		}
		notes = notes[2+size:]
	}
	return nil
}
