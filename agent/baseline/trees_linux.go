package baseline

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// digestTrees are the directories and files whose contents are compared instead of their times. They decide who may log
// in, what runs at boot and on a schedule, and what every program loads.
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

// bootTrees are in memory, and each boot fills them anew: the times of a device in them show only when the host booted.
// systemd creates the devices in /run/systemd/inaccessible.
var bootTrees = []string{"/run"}

// unsteady are files of digestTrees that the system itself rewrites.
var unsteady = []string{
	"/etc/mtab", "/etc/adjtime", "/etc/.updated", "/etc/.pwd.lock", "/etc/passwd-", "/etc/group-", "/etc/shadow-",
	"/etc/gshadow-", "/etc/subuid-", "/etc/subgid-",
}

// deviceTrees hold the kernel's own devices, which come and go.
var deviceTrees = []string{"/dev"}

// notWalked are types of file systems that contain no files of the host: those of the kernel itself, and those that
// other computers serve.
var notWalked = []string{
	"proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "bpf", "tracefs", "debugfs", "securityfs", "pstore",
	"efivarfs", "hugetlbfs", "autofs", "configfs", "fusectl", "binfmt_misc", "rpc_pipefs", "nfs", "nfs4", "cifs", "ceph",
	"9p", "nsfs", "selinuxfs",
}

// trees says which of the lists of trees contain a file.
type trees struct{ digest, volatile, system, unsteady, devices bool }

// treesOf returns the trees that a path is in.
func treesOf(path string) trees {
	return trees{
		digest: under(path, digestTrees), volatile: under(path, volatileTrees), system: under(path, systemTrees),
		unsteady: under(path, unsteady), devices: under(path, deviceTrees),
	}
}

// rooted are the directories that hold the root of a tree. In any other directory, files are in the same trees as the
// directory itself.
var rooted = func() map[string]bool {
	holds := map[string]bool{}
	for _, tree := range slices.Concat(digestTrees, volatileTrees, systemTrees, unsteady, deviceTrees) {
		holds[filepath.Dir(tree)] = true
	}
	return holds
}()

// loose reports whether only privileged files count in the directory at path, whatever their names.
func (t trees) loose(path string) bool {
	return t.volatile && !t.system &&
		!slices.ContainsFunc(systemTrees, func(s string) bool { return strings.HasPrefix(s, path+"/") })
}

// counts reports whether a baseline records the file; the parameter in says which trees contain it.
func (e entry) counts(in trees) bool {
	switch {
	case in.unsteady:
		return e.privileged()
	case in.system || !in.volatile:
		return true
	}
	return e.privileged() && !(in.devices && e.mode&unix.S_IFMT != unix.S_IFREG)
}

// skips are the names of the directories and files to skip, keyed by the directory that contains them.
type skips map[string][]string

func (s skips) add(path string) {
	dir := filepath.Dir(path)
	s[dir] = append(s[dir], filepath.Base(path))
}

// skipped returns what to skip.
func (h Host) skipped() (skips, error) {
	skipped := skips{}
	for _, own := range h.Own {
		skipped.add(own)
	}
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		shared := h.Shared && m.Mountpoint != h.Root && slices.Contains(strings.Split(m.Options, ","), "ro")
		if shared || slices.Contains(notWalked, m.FSType) || strings.HasPrefix(m.FSType, "fuse") {
			skipped.add(h.inside(m.Mountpoint))
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

func under(path string, trees []string) bool {
	for _, t := range trees {
		if rest, ok := strings.CutPrefix(path, t); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}
