package run

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The image's user and group files.
const (
	passwdFile = "/etc/passwd"
	groupFile  = "/etc/group"
)

// fileLimit bounds how many lines of such a file are read.
const fileLimit = 1 << 16

// lookUp resolves a user with the files of the image.
func (t tree) lookUp(u User) (Identity, error) {
	id := Identity{Home: "/"}
	name, group, _ := strings.Cut(u.Name, ":")
	if u.UID != nil {
		name = strconv.FormatInt(*u.UID, 10)
		if u.Name == "" || u.GID != nil {
			group = ""
		}
	}
	if name == "" {
		name = "0"
	}
	number, err := strconv.ParseInt(name, 10, 64)
	numeric := err == nil
	found := false
	err = t.eachEntry(passwdFile, 7, func(f []string) bool {
		uid, uidErr := strconv.ParseInt(f[2], 10, 64)
		gid, gidErr := strconv.ParseInt(f[3], 10, 64)
		if uidErr != nil || gidErr != nil || (numeric && uid != number) || (!numeric && f[0] != name) {
			return true
		}
		id.UID, id.GID, found = uid, gid, true
		name = f[0]
		if f[5] != "" {
			id.Home = f[5]
		}
		return false
	})
	switch {
	case err != nil:
		return id, err
	case !found && !numeric:
		return id, fmt.Errorf("the image has no user %q in %s", name, passwdFile)
	case !found:
		id.UID = number
		if number == 0 {
			id.Home = "/root"
		}
	}
	if id.GID, err = t.primaryGroup(group, id.GID); err != nil {
		return id, err
	}
	if u.GID != nil {
		id.GID = *u.GID
	}
	id.Groups = append(slices.Clone(u.Groups), id.GID) // as in other runtimes: a program may look for it there
	if !u.Strict && found {
		if err := t.eachEntry(groupFile, 4, func(f []string) bool {
			gid, err := strconv.ParseInt(f[2], 10, 64)
			if err == nil && slices.Contains(strings.Split(f[3], ","), name) {
				id.Groups = append(id.Groups, gid)
			}
			return true
		}); err != nil {
			return id, err
		}
	}
	slices.Sort(id.Groups)
	id.Groups = slices.Compact(id.Groups)
	return id, checkIDs(id)
}

// checkIDs rejects ids that no process can have.
func checkIDs(id Identity) error {
	const limit = 1<<32 - 1 // the last value means "none"
	for _, n := range append([]int64{id.UID, id.GID}, id.Groups...) {
		if n < 0 || n >= limit {
			return fmt.Errorf("%d is not a user or group: it must be at least 0 and less than %d", n, int64(limit))
		}
	}
	return nil
}

// primaryGroup returns the group given with a user, as a name or number, or else the user's own.
func (t tree) primaryGroup(group string, have int64) (int64, error) {
	if group == "" {
		return have, nil
	}
	if gid, err := strconv.ParseInt(group, 10, 64); err == nil {
		return gid, nil
	}
	gid, found := int64(0), false
	err := t.eachEntry(groupFile, 4, func(f []string) bool {
		if f[0] != group {
			return true
		}
		n, err := strconv.ParseInt(f[2], 10, 64)
		gid, found = n, err == nil
		return !found
	})
	if err == nil && !found {
		err = fmt.Errorf("the image has no group %q in %s", group, groupFile)
	}
	return gid, err
}

// eachEntry calls f with the fields of each line that has enough of them, until f returns false. A missing file counts
// as empty.
func (t tree) eachEntry(path string, fields int, f func([]string) bool) error {
	fd, err := t.open(path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil // images without these files are common
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	if st, err := file.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	lines := bufio.NewScanner(file)
	for range fileLimit {
		if !lines.Scan() {
			break
		}
		if entry := strings.Split(lines.Text(), ":"); len(entry) >= fields && !f(entry) {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading the image's %s: %w", path, err)
	}
	return nil
}
