package run

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// mapping is a list of ids that exist in a user namespace, as in /proc/PID/uid_map.
type mapping [][2]int64 // first and number

// ids are the ids of this process's user namespace.
type ids struct {
	users, groups mapping
	setGroups     bool // setting further groups is allowed
}

// ownIDs reads the ids of this process's user namespace.
func ownIDs() (ids, error) {
	var all ids
	for path, m := range map[string]*mapping{"/proc/self/uid_map": &all.users, "/proc/self/gid_map": &all.groups} {
		data, err := os.ReadFile(path)
		if err != nil {
			return all, fmt.Errorf("finding out which ids there are: %w", err)
		}
		*m = parseMapping(string(data))
	}
	text, err := os.ReadFile("/proc/self/setgroups")
	all.setGroups = err == nil && strings.TrimSpace(string(text)) == "allow"
	return all, nil
}

func parseMapping(text string) mapping {
	var m mapping
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		first, err := strconv.ParseInt(f[0], 10, 64)
		size, err2 := strconv.ParseInt(f[2], 10, 64)
		if err == nil && err2 == nil {
			m = append(m, [2]int64{first, size})
		}
	}
	return m
}

func (m mapping) has(id int64) bool {
	for _, r := range m {
		if id >= r[0] && id < r[0]+r[1] {
			return true
		}
	}
	return false
}

// place decides how a process assumes an identity. nested means that it gets its own user namespace, in which the only
// available id has the requested number. place omits unavailable groups, with a note.
func (i ids) place(id Identity) (placed Identity, nested bool, notes []string) {
	nested = !i.users.has(id.UID) || !i.groups.has(id.GID)
	placed = id
	placed.Groups = nil
	var without []string
	for _, gid := range id.Groups {
		switch {
		case gid == id.GID && (nested || !i.setGroups):
			// The process has this group anyway.
		case nested || !i.setGroups || !i.groups.has(gid):
			without = append(without, strconv.FormatInt(gid, 10))
		default:
			placed.Groups = append(placed.Groups, gid)
		}
	}
	if len(without) > 0 {
		notes = append(notes, "without groups "+strings.Join(without, ", ")+
			": this host has one id; with subordinate ids (package uidmap, "+
			"and a line in /etc/subuid and /etc/subgid) it would have them")
	}
	return placed, nested, notes
}

// Accounts of people and services have ids in this range. Ids below it belong to the system. The id above it, 65534, is
// that of the user "nobody".
const (
	firstAccount = 100
	lastAccount  = 65533
)

// advice returns what to do if a program that starts as root fails. It looks for the image's own accounts in t, the
// image's root directory: such a program often switches to one of them, or gives files to it. The advice is empty if
// the host has the ids of all these accounts.
func (i ids) advice(t tree, id Identity) (string, error) {
	if id.UID != 0 {
		return "", nil
	}
	var account string
	err := t.eachEntry(passwdFile, 7, func(f []string) bool {
		uid, err := strconv.ParseInt(f[2], 10, 64)
		if err == nil && uid >= firstAccount && uid <= lastAccount && !i.users.has(uid) {
			account = f[0]
		}
		return account == ""
	})
	if account == "" || err != nil {
		return "", err
	}
	return fmt.Sprintf("the image has user %q, and this host has one id, so root can't become that user or give "+
		"it files: set runAsUser in the pod's securityContext; or install newuidmap (Debian's package uidmap), add "+
		"lines to /etc/subuid and /etc/subgid for the user who runs capstan, and run capstan down and capstan up",
		account), nil
}
