package nft

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// conn is a connection to the kernel's packet rules in this process's network namespace.
type conn struct {
	fd       int
	sequence uint32
}

const (
	waitSeconds = 10
	replyBytes  = 64 << 10 // no reply is larger
	listTries   = 20       // how often to read a list that changes during reading
)

func dial() (*conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("connecting to the kernel's packet rules: %w", err)
	}
	c := &conn{fd: fd}
	if err := errors.Join(
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: waitSeconds}),
		unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1), // omit the request from errors
	); err != nil {
		c.close()
		return nil, fmt.Errorf("connecting to the kernel's packet rules: %w", err)
	}
	return c, nil
}

func (c *conn) close() { unix.Close(c.fd) }

// frame appends a message to data. resource is 0 except for the messages that begin and end a transaction.
func frame(data []byte, kind, flags uint16, sequence uint32, family byte, resource uint16, body attributes) []byte {
	const header = unix.SizeofNlMsghdr + 4
	data = binary.NativeEndian.AppendUint32(data, uint32(header+len(body)))
	data = binary.NativeEndian.AppendUint16(data, kind)
	data = binary.NativeEndian.AppendUint16(data, flags|unix.NLM_F_REQUEST)
	data = binary.NativeEndian.AppendUint32(data, sequence)
	data = append(data, 0, 0, 0, 0, family, 0)
	data = binary.BigEndian.AppendUint16(data, resource)
	return append(data, body...)
}

func subsystem(kind uint16) uint16 { return unix.NFNL_SUBSYS_NFTABLES<<8 | kind }

// transact executes all messages or none; if check is true, it executes none. at is the index of the message that the
// kernel refuses, or -1 if the error does not concern a message.
func (c *conn) transact(messages []sent, check bool) (at int, err error) {
	data := frame(nil, unix.NFNL_MSG_BATCH_BEGIN, 0, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil)
	for i, m := range messages {
		data = frame(data, subsystem(m.kind), m.flags, uint32(i+1), m.family, 0, m.data)
	}
	if !check { // the kernel only checks a transaction without an end
		data = frame(data, unix.NFNL_MSG_BATCH_END, 0, uint32(len(messages)+1), unix.AF_UNSPEC,
			unix.NFNL_SUBSYS_NFTABLES, nil)
	}
	if unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 2*len(data)) != nil {
		// This fails without root on the machine; then the size is the largest allowed.
		_ = unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 2*len(data))
	}
	if err := unix.Sendto(c.fd, data, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return -1, fmt.Errorf("sending %d commands: %w", len(messages), err)
	}
	// When Sendto returns, the kernel has already answered. It answers only if there are errors.
	buffer := make([]byte, replyBytes)
	for {
		n, _, err := unix.Recvfrom(c.fd, buffer, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EAGAIN) {
			return -1, nil
		}
		if err != nil {
			return -1, fmt.Errorf("reading the kernel's answer: %w", err)
		}
		for _, r := range replies(buffer[:n]) {
			if err := r.failure(); err != nil {
				return int(r.sequence) - 1, err
			}
		}
	}
}

// reply is a message from the kernel.
type reply struct {
	kind, flags uint16
	sequence    uint32
	body        []byte
}

// failure returns the error in the reply, or nil. A reply without an error can have the same kind: it ends a list or an
// answer.
func (r reply) failure() error {
	if r.kind != unix.NLMSG_ERROR && r.kind != unix.NLMSG_DONE || len(r.body) < 4 {
		return nil
	}
	if code := int32(binary.NativeEndian.Uint32(r.body)); code < 0 {
		return unix.Errno(-code)
	}
	return nil
}

// attributes returns the attributes of a message about packet rules.
func (r reply) attributes() []byte { return r.body[min(4, len(r.body)):] }

func replies(data []byte) (all []reply) {
	for len(data) >= unix.SizeofNlMsghdr {
		size := int(binary.NativeEndian.Uint32(data))
		if size < unix.SizeofNlMsghdr || size > len(data) {
			return all
		}
		all = append(all, reply{
			kind: binary.NativeEndian.Uint16(data[4:]), flags: binary.NativeEndian.Uint16(data[6:]),
			sequence: binary.NativeEndian.Uint32(data[8:]), body: data[unix.SizeofNlMsghdr:size],
		})
		data = data[min(len(data), (size+3)&^3):]
	}
	return all
}

// ask returns the attributes of one object.
func (c *conn) ask(kind uint16, family byte, what attributes) ([]byte, error) {
	all, _, err := c.read(kind, 0, family, what)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, unix.ENOENT
	}
	return all[0], nil
}

// list returns the attributes of all objects of a kind.
func (c *conn) list(kind uint16, family byte, what attributes) ([][]byte, error) {
	for range listTries {
		all, changed, err := c.read(kind, unix.NLM_F_DUMP, family, what)
		if !changed && !errors.Is(err, unix.EINTR) {
			return all, err
		}
	}
	return nil, errors.New("the packet rules change all the time: they could not be listed")
}

// read asks once. changed reports that a list changed during reading, so that the result is useless.
func (c *conn) read(kind, flags uint16, family byte, what attributes) (all [][]byte, changed bool, err error) {
	c.sequence++
	question := frame(nil, subsystem(kind), flags|unix.NLM_F_ACK, c.sequence, family, 0, what)
	if err := unix.Sendto(c.fd, question, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, false, fmt.Errorf("asking for packet rules: %w", err)
	}
	buffer := make([]byte, replyBytes)
	for {
		n, _, err := unix.Recvfrom(c.fd, buffer, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, false, fmt.Errorf("reading packet rules: %w", err)
		}
		for _, r := range replies(buffer[:n]) {
			if r.sequence != c.sequence {
				continue
			}
			changed = changed || r.flags&unix.NLM_F_DUMP_INTR != 0
			switch r.kind {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
				return all, changed, r.failure()
			}
			all = append(all, append([]byte(nil), r.attributes()...))
		}
	}
}

// setType asks the kernel for the type of a set.
func (c *conn) setType(name setName) (setType, error) {
	var what attributes
	what.text(unix.NFTA_SET_TABLE, name.table)
	what.text(unix.NFTA_SET_NAME, name.name)
	set, err := c.ask(unix.NFT_MSG_GETSET, name.family, what)
	if err != nil {
		return setType{}, err
	}
	key, err := keyTypeOf(number32(set, unix.NFTA_SET_KEY_TYPE))
	return setType{key, number32(set, unix.NFTA_SET_FLAGS)&unix.NFT_SET_MAP != 0}, err
}
