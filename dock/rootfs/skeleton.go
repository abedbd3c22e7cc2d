package rootfs

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Skeleton describes a new host's root directory before its first boot.
type Skeleton struct {
	Name      string // the initial host name
	MachineID string // 32 hexadecimal digits; never changes
	OSName    string // system of the machine whose programs the host uses: "Debian GNU/Linux 12 (bookworm)"
}

// NewMachineID returns a random machine id.
func NewMachineID() string {
	var b [16]byte
	rand.Read(b[:])                             // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80 // as systemd does: a valid UUID
	return hex.EncodeToString(b[:])
}

// MachineOSName returns the name of the machine's operating system, or "Linux" if the machine has none.
func MachineOSName() string {
	for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for _, line := range strings.Split(string(data), "\n") {
			if v, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
				return strings.Trim(v, `"'`)
			}
		}
	}
	return "Linux"
}

// Applets lists the commands of a host that are capstan-dock under another name.
var Applets = []string{"systemctl", "journalctl", "hostnamectl", "poweroff", "reboot", "shutdown"}

type node struct {
	path string
	mode fs.FileMode
	data string // of a file; a directory or link has none
	link string
}

func (s Skeleton) nodes() []node {
	var out []node
	for _, path := range []string{
		"dev", "etc/default", "etc/systemd/system/multi-user.target.wants", "etc/capstan", "etc/sysconfig", "home", "mnt",
		"media", "opt/capstan/bin",
		"opt/capstan/bundles", "opt/cni/bin", "proc", "run", "srv", "sys", "usr/local/bin", "usr/local/sbin", "usr/local/lib",
		"usr/local/etc",
		"usr/local/share", "var/cache", "var/lib", "var/log", "var/spool", "var/tmp", "tmp",
	} {
		out = append(out, node{path: path, mode: fs.ModeDir | 0o755})
	}
	out = append(out,
		node{path: "root", mode: fs.ModeDir | 0o700},
		node{path: "var/run", link: "../run"},
		node{path: "var/lock", link: "../run/lock"},
		node{path: "etc/mtab", link: "../proc/self/mounts"},
		node{path: "etc/hostname", mode: 0o644, data: s.Name + "\n"},
		node{path: "etc/machine-id", mode: 0o444, data: s.MachineID + "\n"},
		node{
			path: "etc/os-release", mode: 0o644,
			data: fmt.Sprintf("ID=capstan\nNAME=\"Capstan local host\"\nPRETTY_NAME=\"Capstan local host on %s\"\n", s.OSName),
		},
		node{
			path: "etc/nsswitch.conf", mode: 0o644,
			data: "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\n" +
				"services: files\n",
		},
		node{
			path: "etc/passwd", mode: 0o644,
			data: "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:daemon:/:/usr/sbin/nologin\n" +
				"nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
		},
		node{
			path: "etc/group", mode: 0o644,
			data: "root:x:0:\ndaemon:x:1:\ntty:x:5:\nsudo:x:27:\nusers:x:100:\nnogroup:x:65534:\n",
		},
		node{
			path: "etc/shadow", mode: 0o600,
			data: "root:*:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\nnobody:*:19000:0:99999:7:::\n",
		},
		node{path: "etc/gshadow", mode: 0o600, data: "root:*::\n"},
		node{path: "etc/shells", mode: 0o644, data: "/bin/sh\n/bin/bash\n"},
		node{path: "etc/profile", mode: 0o644, data: "export PATH=" + Path + "\n"},
	)
	for _, name := range Applets {
		out = append(out, node{path: "usr/local/bin/" + name, link: "/opt/capstan/bin/capstan-dock"})
	}
	for path, text := range unitFiles {
		out = append(out, node{path: "etc/systemd/system/" + path, mode: 0o644, data: text})
	}
	return append(out, node{
		path: "etc/systemd/system/multi-user.target.wants/capstan-agent.service",
		link: "/etc/systemd/system/capstan-agent.service",
	})
}

// Path is the PATH of a host.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/capstan/bin"

// Write writes the skeleton and files to the directory root, which must not exist. It writes a directory next to root
// and then renames that directory, so root is never incomplete; on an error nothing is left.
func Write(root string, s Skeleton, files []File) (err error) {
	temp := root + ".new"
	if err := Remove(temp); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			Remove(temp)
		}
	}()
	for _, n := range s.nodes() {
		if err := n.write(temp); err != nil {
			return fmt.Errorf("making the root directory of host %s: %w", s.Name, err)
		}
	}
	if err := Put(temp, files); err != nil {
		return err
	}
	if err := os.Rename(temp, root); err != nil {
		return fmt.Errorf("making the root directory of host %s: %w", s.Name, err)
	}
	return nil
}

func (n node) write(root string) error {
	path := filepath.Join(root, n.path)
	if n.mode.IsDir() {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		return os.Chmod(path, n.mode.Perm())
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if n.link != "" {
		return os.Symlink(n.link, path)
	}
	if err := os.WriteFile(path, []byte(n.data), n.mode); err != nil {
		return err
	}
	return os.Chmod(path, n.mode) // regardless of the umask
}

// File is a file to put into a host's root.
type File struct {
	Path string // absolute, as the host sees it
	Mode fs.FileMode
	Data []byte
}

// Put writes files into a host's root, each as a whole: a reader in a running host sees either the old or the new file.
// It refuses links that lead out of the root.
func Put(root string, files []File) error {
	if len(files) == 0 {
		return nil
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		return fmt.Errorf("opening the host's root directory: %w", err)
	}
	defer r.Close()
	for _, f := range files {
		if err := put(r, f); err != nil {
			return fmt.Errorf("writing %s of the host: %w", f.Path, err)
		}
	}
	return nil
}

func put(r *os.Root, f File) error {
	name := relative(f.Path)
	// Only for regular files: reading a pipe would block.
	if info, err := r.Lstat(name); err == nil && info.Mode().IsRegular() && info.Size() == int64(len(f.Data)) {
		if have, err := r.ReadFile(name); err == nil && bytes.Equal(have, f.Data) {
			return r.Chmod(name, f.Mode.Perm())
		}
	}
	if err := r.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	temp := name + ".capstan-new"
	if err := r.WriteFile(temp, f.Data, 0o600); err != nil {
		r.Remove(temp)
		return err
	}
	if err := r.Chmod(temp, f.Mode.Perm()); err != nil {
		r.Remove(temp)
		return err
	}
	return r.Rename(temp, name)
}

// Remove deletes a directory tree, even where a directory denies its owner access. A missing tree is not an error. No
// host may be running in it.
func Remove(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(path, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing %s: %w", dir, err)
	}
	return nil
}
