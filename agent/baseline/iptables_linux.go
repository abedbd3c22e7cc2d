package baseline

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The legacy packet filter, which predates nftables, has its own interface: linux/netfilter_ipv4/ip_tables.h and
// linux/netfilter_ipv6/ip6_tables.h. Both use the same numbers.
const (
	getInfo    = 64 // IPT_SO_GET_INFO
	getEntries = 65 // IPT_SO_GET_ENTRIES
	nameLength = 32 // XT_TABLE_MAXNAMELEN
	infoLength = nameLength + 4*13
	hookCount  = 5
	// headLength is the size of struct ipt_get_entries up to the entries, which are aligned to 8 bytes.
	headLength = nameLength + 8
	// mostRules bounds the size of a table that is read, in bytes.
	mostRules = 64 << 20
	// accept is the verdict of a chain that lets everything pass.
	accept = -2 // -NF_ACCEPT - 1
)

// legacy is one address family of the legacy packet filter.
type legacy struct {
	name, tables         string
	family, level        int
	offsets, counters    int // offsets, in an entry, of its fields (target, next) and of its counters
	entry, targetVerdict int // length of an entry without matches and target; offset of the verdict in its target
}

var legacies = []legacy{
	{"iptables", "/proc/self/net/ip_tables_names", unix.AF_INET, unix.SOL_IP, 88, 96, 112, 32},
	{"ip6tables", "/proc/self/net/ip6_tables_names", unix.AF_INET6, unix.SOL_IPV6, 140, 152, 168, 32},
}

// legacyRules returns the tables of the legacy packet filter, each with the digest of its rules. Tables that do nothing
// don't count, because merely listing a table creates it.
func legacyRules() (map[string]int, error) {
	all := map[string]int{}
	for _, l := range legacies {
		err := eachLine(l.tables, func(string) {})
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue // the kernel has no such packet filter, or shows it only to the machine's root
		}
		if err != nil {
			return nil, err
		}
		var names []string
		if err := eachLine(l.tables, func(name string) { names = append(names, name) }); err != nil {
			return nil, err
		}
		for _, name := range names {
			rules, err := l.activeRules(name)
			if err != nil {
				return nil, fmt.Errorf("reading table %s of %s: %w", name, l.name, err)
			}
			if rules != nil {
				sum := sha256.Sum256(rules)
				all[fmt.Sprintf("table %s of %s with other rules (%s)", name, l.name, hex.EncodeToString(sum[:4]))]++
			}
		}
	}
	return all, nil
}

// activeRules returns the rules of a table without counters, or nil if the table has no rules and drops nothing.
func (l legacy) activeRules(table string) ([]byte, error) {
	fd, err := unix.Socket(l.family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for range 10 { // the table may change between the two calls
		info := make([]byte, infoLength)
		copy(info[:nameLength-1], table)
		if err := getsockopt(fd, l.level, getInfo, info); err != nil {
			return nil, err
		}
		hooks := binary.NativeEndian.Uint32(info[nameLength:])
		entries := binary.NativeEndian.Uint32(info[infoLength-8:])
		size := binary.NativeEndian.Uint32(info[infoLength-4:])
		if size > mostRules {
			return nil, fmt.Errorf("its rules take %d bytes, which is too much", size)
		}
		data := make([]byte, headLength+size)
		copy(data[:nameLength-1], table)
		binary.NativeEndian.PutUint32(data[nameLength:], size)
		if err := getsockopt(fd, l.level, getEntries, data); err != nil {
			if errors.Is(err, unix.EAGAIN) {
				continue
			}
			return nil, err
		}
		return l.plain(data[headLength:], int(entries), bits.OnesCount32(hooks))
	}
	return nil, unix.EAGAIN
}

// plain returns a table's entries without their counters, or nil if the entries contain no rules but only chain
// policies that accept.
func (l legacy) plain(data []byte, entries, chains int) ([]byte, error) {
	data = bytes.Clone(data)
	idle := entries == chains+1 // the last entry marks the end of the table
	for at := 0; at < len(data); {
		if at+l.entry > len(data) {
			return nil, errors.New("an entry is cut off")
		}
		target := int(binary.NativeEndian.Uint16(data[at+l.offsets:]))
		next := int(binary.NativeEndian.Uint16(data[at+l.offsets+2:]))
		if next < l.entry || at+next > len(data) || target < l.entry || target+l.targetVerdict > next {
			return nil, errors.New("an entry is damaged")
		}
		// Clear the counters and the bytes before them. The latter mean nothing outside the kernel.
		clear(data[at+l.offsets+4 : at+l.counters+16])
		name := data[at+target+2 : at+target+l.targetVerdict]
		last := strings.HasPrefix(string(name), "ERROR")
		if !last && (target+l.targetVerdict+4 > next ||
			int32(binary.NativeEndian.Uint32(data[at+target+l.targetVerdict:])) != accept) {
			idle = false
		}
		at += next
	}
	if idle {
		return nil, nil
	}
	return data, nil
}

// getsockopt reads an option that is a structure.
func getsockopt(fd, level, option int, data []byte) error {
	size := uint32(len(data))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&data[0])), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
