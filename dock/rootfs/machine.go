package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Entry is one name in a directory of the machine.
type Entry struct {
	Path string // absolute
	Link string // target of a symbolic link
	Dir  bool
}

// Machine is what PlanShared needs to know about the machine: which of the paths shared with hosts exist, and of what
// kind.
type Machine struct{ Entries []Entry }

// sharedEtc lists parts of the machine's /etc that its programs need: certificates, links that /usr/bin points to, the
// loader's cache.
var sharedEtc = []string{
	"/etc/alternatives", "/etc/ca-certificates", "/etc/crypto-policies", "/etc/ld.so.cache", "/etc/ld.so.conf",
	"/etc/ld.so.conf.d",
	"/etc/localtime", "/etc/pki", "/etc/protocols", "/etc/services", "/etc/ssl",
}

// Inspect examines the machine whose root directory is root ("/", except in tests).
func Inspect(root string) (Machine, error) {
	top, err := os.ReadDir(root)
	if err != nil {
		return Machine{}, fmt.Errorf("looking at the machine's root directory: %w", err)
	}
	var m Machine
	add := func(path string) {
		info, err := os.Lstat(filepath.Join(root, path))
		if err != nil {
			return
		}
		e := Entry{Path: path, Dir: info.IsDir()}
		if info.Mode()&os.ModeSymlink != 0 {
			if e.Link, err = os.Readlink(filepath.Join(root, path)); err != nil {
				return
			}
		} else if !info.IsDir() && !info.Mode().IsRegular() {
			return
		}
		m.Entries = append(m.Entries, e)
	}
	for _, d := range top {
		name := d.Name()
		if slices.Contains([]string{"bin", "sbin", "nix", "gnu", "boot"}, name) || strings.HasPrefix(name, "lib") {
			add("/" + name)
		}
	}
	if usr, err := os.ReadDir(filepath.Join(root, "usr")); err == nil {
		for _, d := range usr {
			if d.Name() != "local" {
				add("/usr/" + d.Name())
			}
		}
	}
	for _, p := range sharedEtc {
		add(p)
	}
	return m, nil
}
