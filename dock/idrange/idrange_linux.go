// Package idrange reserves ranges of user and group ids for the user namespaces of local hosts, so that two hosts of a
// machine, or a host and an account, never share an id.
package idrange

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Size is the number of ids of a host: as many as a distribution expects, from root to nobody and beyond.
const Size = 65536

// Hosts get ids from first up to limit. They are above those that systemd-nspawn uses (0x00080000 to 0x6fffffff) and
// below 2^31, because some programs read larger ids as negative.
const (
	first = 0x70000000
	limit = 0x80000000
)

// Directory holds the reservations of all docks of a machine: one locked file for each range in use.
const Directory = "/run/capstan/ids"

// ErrNoneLeft reports that every range is in use.
var ErrNoneLeft = errors.New("all ranges of user ids for local hosts are in use: stop other hosts of this machine")

// In reports whether a user namespace, given its uid_map or gid_map, has all ids that hosts may get.
func In(mapping string) bool {
	for line := range strings.Lines(mapping) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		begin, err1 := strconv.ParseUint(fields[0], 10, 32)
		count, err2 := strconv.ParseUint(fields[2], 10, 32)
		if err1 == nil && err2 == nil && begin <= first && begin+count >= limit {
			return true
		}
	}
	return false
}

// Same returns a mapping of the ids from 0 to [Size] to the same ids in a user namespace, given its uid_map or gid_map.
// It returns nil if the namespace lacks some of them. The kernel requires one line for each line of the namespace's
// map.
func Same(mapping string) []syscall.SysProcIDMap {
	var all []syscall.SysProcIDMap
	sum := 0
	for line := range strings.Lines(mapping) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		begin, err1 := strconv.Atoi(fields[0])
		count, err2 := strconv.Atoi(fields[2])
		if err1 != nil || err2 != nil || begin >= Size {
			continue
		}
		count = min(count, Size-begin)
		sum += count
		all = append(all, syscall.SysProcIDMap{ContainerID: begin, HostID: begin, Size: count})
	}
	if sum != Size {
		return nil
	}
	return all
}

// Range is a reserved range of [Size] ids. It becomes free when it is released or its process exits.
type Range struct {
	// First is the lowest id; the host sees it as 0.
	First int

	once sync.Once
	lock *os.File
}

// Release frees the range. Further calls have no effect.
func (r *Range) Release() { r.once.Do(func() { r.lock.Close() }) }

// Pool reserves ranges.
type Pool struct {
	// Dir is the directory of the reservations; default [Directory]. All pools of a machine must share it.
	Dir string
	// Accounts lists the files that assign ids to users. Their lines have the form NAME:FIRST:COUNT, or the form of
	// /etc/passwd and /etc/group. Default: subuid, subgid, passwd and group in /etc. Missing files are skipped.
	Accounts []string
}

// accounts are the files that assign ids.
var accounts = []string{"/etc/subuid", "/etc/subgid", "/etc/passwd", "/etc/group"}

// Reserve reserves a range that overlaps no account, no subordinate ids and no other pool's range on the machine. It
// returns [ErrNoneLeft] if no range is free.
func (p Pool) Reserve() (*Range, error) {
	dir, files := p.Dir, p.Accounts
	if dir == "" {
		dir = Directory
	}
	if files == nil {
		files = accounts
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("reserving user ids for a host: %w", err)
	}
	taken, err := takenSlots(files)
	if err != nil {
		return nil, fmt.Errorf("reserving user ids for a host: %w", err)
	}
	for start := first; start < limit; start += Size {
		if taken[start] {
			continue
		}
		lock, err := tryLock(filepath.Join(dir, strconv.Itoa(start)))
		if err != nil {
			return nil, fmt.Errorf("reserving user ids for a host: %w", err)
		}
		if lock != nil {
			return &Range{First: start, lock: lock}, nil
		}
	}
	return nil, ErrNoneLeft
}

// tryLock locks a file, which it creates if missing. It returns nil if somebody else holds the lock.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, fmt.Errorf("locking %s: %w", path, err)
}

// takenSlots returns the starts of the ranges in which others have ids.
func takenSlots(files []string) (map[int]bool, error) {
	taken := map[int]bool{}
	for _, path := range files {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		err = mark(taken, f, strings.HasPrefix(filepath.Base(path), "sub"))
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
	}
	return taken, nil
}

// mark adds the ranges that the lines of an account file touch. It skips lines that it does not understand, as the
// programs that read these files do.
func mark(taken map[int]bool, from io.Reader, subordinate bool) error {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		var begins []string
		count := "1"
		switch {
		case subordinate && len(fields) >= 3:
			begins, count = fields[1:2], fields[2]
		case !subordinate && len(fields) >= 3: // the user's id and its group's id
			begins = fields[2:min(4, len(fields))]
		}
		n, err := strconv.ParseUint(count, 10, 32)
		if err != nil || n == 0 {
			continue
		}
		for _, begin := range begins {
			if b, err := strconv.ParseUint(begin, 10, 32); err == nil {
				markRange(taken, int(b), int(b+n-1))
			}
		}
	}
	return lines.Err()
}

func markRange(taken map[int]bool, low, high int) {
	low, high = max(low, first), min(high, limit-1)
	for start := first + (low-first)/Size*Size; start <= high; start += Size {
		taken[start] = true
	}
}
