package baseline

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// digestTrees are the directories and files that are compared by contents and not by times: they decide who may log in,
// what runs at boot and on a schedule, and what every program loads.
var digestTrees = []string{
	"/etc", "/root/.ssh", "/var/spool/cron", "/var/spool/at", "/var/lib/systemd/linger", "/usr/local/lib/systemd",
	"/usr/lib/systemd", "/lib/systemd", "/run/systemd/system", "/run/systemd/transient", "/run/systemd/generator",
}

// volatileTrees change even while a host is idle. Only devices and files with special privileges count there.
var volatileTrees = []string{"/tmp", "/var", "/run", "/dev", "/home", "/root", "/mnt", "/media"}

// systemTrees count although they are inside a volatile tree.
var systemTrees = []string{
	"/root/.ssh", "/root/.profile", "/root/.bashrc", "/root/.bash_profile", "/root/.config/systemd", "/var/spool/cron",
	"/var/spool/at", "/var/lib/systemd/linger", "/run/systemd/system", "/run/systemd/transient", "/run/systemd/generator",
}

// bootTrees are in memory, and each boot fills them anew: the times of a device in them say only when that was. systemd
// makes the devices of /run/systemd/inaccessible.
var bootTrees = []string{"/run"}

// unsteady are files of digestTrees that the system itself rewrites.
var unsteady = []string{
	"/etc/mtab", "/etc/adjtime", "/etc/.updated", "/etc/.pwd.lock", "/etc/passwd-", "/etc/group-", "/etc/shadow-",
	"/etc/gshadow-", "/etc/subuid-", "/etc/subgid-",
}

// notWalked are file systems that contain no files of the host: the kernel's own, and those of other computers.
var notWalked = []string{
	"proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "bpf", "tracefs", "debugfs", "securityfs", "pstore",
	"efivarfs", "hugetlbfs", "autofs", "configfs", "fusectl", "binfmt_misc", "rpc_pipefs", "nfs", "nfs4", "cifs", "ceph",
	"9p", "nsfs", "selinuxfs",
}

// entry is a file as a baseline records it.
type entry struct {
	path string
	// mode to ctime are the metadata; digest covers the contents, where they count. The size of a device is its number.
	mode           uint32
	uid, gid       uint32
	size           int64
	mtime, ctime   int64
	digest, rights string // rights are the capabilities of a program, in hex
}

// differs reports whether a file has changed.
func (e entry) differs(now entry) bool {
	if e.mode != now.mode || e.uid != now.uid || e.gid != now.gid || e.rights != now.rights {
		return true
	}
	sameTimes := e.mtime == now.mtime && e.ctime == now.ctime
	switch {
	case e.mode&unix.S_IFMT == unix.S_IFDIR:
		return false // its contents are entries of their own
	case e.device() && e.size != now.size:
		return e.size != 0 || !sameTimes // earlier agents recorded no numbers
	case e.device():
		return !sameTimes && !under(e.path, bootTrees)
	case e.digest != "" || now.digest != "":
		return e.digest != now.digest
	default:
		return e.size != now.size || !sameTimes
	}
}

// device reports whether a file is a device.
func (e entry) device() bool {
	kind := e.mode & unix.S_IFMT
	return kind == unix.S_IFBLK || kind == unix.S_IFCHR
}

// privileged reports whether a file is a device or gives privileges to whoever runs it.
func (e entry) privileged() bool {
	regular := e.mode&unix.S_IFMT == unix.S_IFREG
	return e.device() || regular && (e.mode&(unix.S_ISUID|unix.S_ISGID) != 0 || e.rights != "")
}

// skipped returns the directories and files to skip.
func (h Host) skipped() (map[string]bool, error) {
	skipped := map[string]bool{}
	for _, own := range h.Own {
		skipped[own] = true
	}
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		shared := h.Shared && m.Mountpoint != h.Root && slices.Contains(strings.Split(m.Options, ","), "ro")
		if shared || slices.Contains(notWalked, m.FSType) || strings.HasPrefix(m.FSType, "fuse") {
			skipped[h.inside(m.Mountpoint)] = true
		}
	}
	return skipped, nil
}

// inside returns the path of a file as seen on the host.
func (h Host) inside(full string) string {
	if h.Root == "/" {
		return full
	}
	rest, ok := strings.CutPrefix(full, h.Root)
	if !ok {
		return ""
	}
	return "/" + strings.TrimPrefix(rest, "/")
}

func counts(e entry) bool {
	if under(e.path, unsteady) {
		return e.privileged()
	}
	if under(e.path, systemTrees) || !under(e.path, volatileTrees) {
		return true
	}
	// The kernel's own devices come and go.
	return e.privileged() &&
		!(e.path == "/dev" || strings.HasPrefix(e.path, "/dev/") && e.mode&unix.S_IFMT != unix.S_IFREG)
}

func under(path string, trees []string) bool {
	for _, t := range trees {
		if rest, ok := strings.CutPrefix(path, t); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

// entry examines the file that has a name in an open directory.
func (h Host) entry(directory int, name, path, full string) (entry, error) {
	var stat unix.Statx_t
	if err := unix.Statx(directory, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS,
		&stat); err != nil {
		return entry{}, &fs.PathError{Op: "statx", Path: full, Err: err}
	}
	e := entry{
		path: path, mode: uint32(stat.Mode), uid: stat.Uid, gid: stat.Gid, size: int64(stat.Size),
		mtime: nanoseconds(stat.Mtime), ctime: nanoseconds(stat.Ctime),
	}
	if e.device() {
		e.size = int64(unix.Mkdev(stat.Rdev_major, stat.Rdev_minor))
	}
	var err error
	regular := e.mode&unix.S_IFMT == unix.S_IFREG
	if regular && e.mode&0o111 != 0 {
		e.rights = capabilities(full)
	}
	switch {
	case regular && (under(path, digestTrees) || e.privileged()):
		if e.digest, err = digest(full); errors.Is(err, fs.ErrPermission) {
			e.digest, err = "unreadable", nil // as above: root can read everything else
		}
	case e.mode&unix.S_IFMT == unix.S_IFLNK && under(path, digestTrees):
		var to string
		to, err = os.Readlink(full)
		sum := sha256.Sum256([]byte(to))
		e.digest = hex.EncodeToString(sum[:])
	}
	return e, err
}

func nanoseconds(t unix.StatxTimestamp) int64 { return t.Sec*int64(time.Second) + int64(t.Nsec) }

// capabilities returns the capabilities that a program gets when it starts, in hex.
func capabilities(path string) string {
	var value [64]byte
	n, err := unix.Lgetxattr(path, "security.capability", value[:])
	if err != nil || n == 0 {
		return ""
	}
	return hex.EncodeToString(value[:n])
}

// digest returns the digest of a file. It never follows a link and never blocks, because a file may have been replaced
// by a pipe.
func digest(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// describe lists changes, those of privileged files first. It omits the ordinary contents of a directory that is new or
// gone.
func describe(changes []change) []string {
	var first, others []string
	var within string // the last directory that is new or gone
	for _, c := range changes {
		switch {
		case c.now != nil && c.now.privileged():
			first = append(first, c.String())
		case within != "" && strings.HasPrefix(c.path, within+"/"):
		default:
			others = append(others, c.String())
			if c.before == nil && c.now.mode&unix.S_IFMT == unix.S_IFDIR ||
				c.now == nil && c.before.mode&unix.S_IFMT == unix.S_IFDIR {
				within = c.path
			}
		}
	}
	return append(first, others...)
}

// String describes the change.
func (c change) String() string {
	switch {
	case c.now == nil:
		return fmt.Sprintf("path %s, which is gone", c.path)
	case c.now.privileged() && c.now.mode&unix.S_IFMT == unix.S_IFREG:
		return fmt.Sprintf(
			"path %s, a program with rights of its own (mode %#o, uid %d)",
			c.path,
			c.now.mode&0o7777,
			c.now.uid,
		)
	case c.now.privileged():
		return fmt.Sprintf("path %s, a device", c.path)
	case c.before == nil:
		return fmt.Sprintf("path %s, which was not there before", c.path)
	case c.before.mode != c.now.mode:
		return fmt.Sprintf("path %s, whose mode was %#o and is %#o", c.path, c.before.mode&0o7777, c.now.mode&0o7777)
	case c.before.uid != c.now.uid || c.before.gid != c.now.gid:
		return fmt.Sprintf("path %s, whose owner was %d:%d and is %d:%d",
			c.path, c.before.uid, c.before.gid, c.now.uid, c.now.gid)
	default:
		return fmt.Sprintf("path %s, which is not as it was before", c.path)
	}
}
