package rootfs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kind says how a Mount is made.
type Kind string

// The kinds of mounts.
const (
	Bind      Kind = "bind"      // Source, with all mounts below it
	FS        Kind = "fs"        // a new file system of type Source
	Link      Kind = "link"      // not a mount: a symbolic link to Source
	Text      Kind = "text"      // not a mount: a file that holds Source
	Directory Kind = "directory" // not a mount: an empty directory
)

// Mount is one step in making the root.
type Mount struct {
	Kind     Kind
	Source   string
	Target   string // absolute, as the host sees it
	Data     string // options of the file system
	Own      bool   // Source is a path of the host, not of the machine
	ReadOnly bool   // with all mounts below
	HostIDs  bool   // owners of its files are mapped to the host's ids, as in the host's root
	Writable bool   // even if Source is mounted read-only
	Optional bool   // it may fail: the host works without it

	// Instead is used if this mount fails.
	Instead []Mount
}

// String returns one line for logs, errors and golden files.
func (m Mount) String() string {
	s := fmt.Sprintf("%s %s", m.Kind, m.Target)
	if m.Source != "" {
		s += " from " + strings.ReplaceAll(strings.TrimSpace(m.Source), "\n", " ")
	}
	if m.Data != "" {
		s += " " + m.Data
	}
	if m.Own {
		s += " (own)"
	}
	if m.HostIDs {
		s += " ids"
	}
	if m.ReadOnly {
		s += " ro"
	}
	if m.Writable {
		s += " rw"
	}
	if m.Optional {
		s += " optional"
	}
	for _, i := range m.Instead {
		s += " | " + i.String()
	}
	return s
}

// controllers makes a plain directory look like cgroup v2 to kubeadm's system check. The directory limits nothing.
const controllers = "cpuset cpu io memory hugetlb pids rdma freezer devices\n"

// PlanShared lists what a host sees of machine m and of our binaries in binDir: /opt/capstan/bin, and its directory
// "bundles" as /opt/capstan/bundles. The dock mounts them before the host's user namespace exists. That locks the
// mounts: root in the host can neither unmount them nor make them writable.
func PlanShared(m Machine, binDir string) []Mount {
	var plan []Mount
	for _, e := range m.Entries {
		if e.Link != "" {
			plan = append(plan, Mount{Kind: Link, Source: e.Link, Target: e.Path})
			continue
		}
		optional := strings.HasPrefix(e.Path, "/etc/") || e.Path == "/boot"
		plan = append(plan, Mount{Kind: Bind, Source: e.Path, Target: e.Path, ReadOnly: true, Optional: optional})
	}
	return append(plan,
		Mount{Kind: Bind, Source: binDir, Target: "/opt/capstan/bin", ReadOnly: true},
		Mount{Kind: Bind, Source: binDir + "/bundles", Target: "/opt/capstan/bundles", ReadOnly: true, Optional: true},
	)
}

// PlanImages lists what a host sees of the image store: the unpacked layers, and the directory with the host's own
// socket. Only the dock can write there; see PlanShared.
func PlanImages(layers, socket string) []Mount {
	return []Mount{
		{Kind: Bind, Source: layers, Target: "/opt/capstan/layers", HostIDs: true, ReadOnly: true},
		{Kind: Bind, Source: socket, Target: "/opt/capstan/images", HostIDs: true, ReadOnly: true},
	}
}

// GroupDir returns the path at which a host sees the control group with this name.
func GroupDir(name string) string { return "/opt/capstan/cgroup/" + name }

// PlanGroups lists the control groups in which a host creates the control groups of its pods. groups maps names to
// directories of the machine.
func PlanGroups(groups map[string]string) []Mount {
	var plan []Mount
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		plan = append(plan, Mount{Kind: Bind, Source: groups[name], Target: GroupDir(name)})
	}
	return plan
}

// PlanOwn lists the host's private mounts; its PID 1 mounts them in the host's namespaces. bootID becomes
// /proc/sys/kernel/random/boot_id. Each boot needs a new one, or a kubelet does not notice the reboot.
func PlanOwn(bootID string) []Mount {
	plan := []Mount{
		{Kind: FS, Source: "tmpfs", Target: "/run", Data: "mode=755,size=64m"},
		{Kind: Directory, Target: "/run/lock"},
	}
	plan = append(plan, planDev()...)
	plan = append(plan, planProc(bootID)...)
	return append(plan, planSys()...)
}

func planDev() []Mount {
	plan := []Mount{{Kind: FS, Source: "tmpfs", Target: "/dev", Data: "mode=755,size=1m"}}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		plan = append(plan, Mount{Kind: Bind, Source: "/dev/" + name, Target: "/dev/" + name})
	}
	return append(plan,
		Mount{Kind: FS, Source: "devpts", Target: "/dev/pts", Data: "newinstance,ptmxmode=0666,mode=0620", Optional: true},
		Mount{Kind: Link, Source: "pts/ptmx", Target: "/dev/ptmx"},
		Mount{Kind: FS, Source: "tmpfs", Target: "/dev/shm", Data: "mode=1777,size=64m"},
		Mount{Kind: Link, Source: "null", Target: "/dev/kmsg"},
		Mount{Kind: Link, Source: "/proc/self/fd", Target: "/dev/fd"},
		Mount{Kind: Link, Source: "/proc/self/fd/0", Target: "/dev/stdin"},
		Mount{Kind: Link, Source: "/proc/self/fd/1", Target: "/dev/stdout"},
		Mount{Kind: Link, Source: "/proc/self/fd/2", Target: "/dev/stderr"},
	)
}

// planProc plans a /proc of the host's own PID namespace. If parts of the dock's /proc are masked, as in a container,
// the kernel refuses that, and the host gets the dock's /proc. Whatever belongs to the whole machine is read-only.
func planProc(bootID string) []Mount {
	plan := []Mount{
		{Kind: FS, Source: "proc", Target: "/proc", Instead: []Mount{{Kind: Bind, Source: "/proc", Target: "/proc"}}},
	}
	for _, path := range []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"} {
		plan = append(plan, Mount{Kind: Bind, Source: path, Target: path, Own: true, ReadOnly: true, Optional: true})
	}
	// The network's sysctls are the host's own.
	plan = append(plan, Mount{Kind: Bind, Source: "/proc/sys/net", Target: "/proc/sys/net", Own: true, Writable: true})
	if bootID != "" {
		plan = append(plan,
			Mount{Kind: Text, Source: bootID + "\n", Target: "/run/boot_id"},
			Mount{
				Kind: Bind, Source: "/run/boot_id", Target: "/proc/sys/kernel/random/boot_id", Own: true, ReadOnly: true,
				Optional: true,
			})
	}
	return plan
}

// planSys shows the devices of the host's own network namespace if the kernel allows it.
func planSys() []Mount {
	return []Mount{
		{Kind: FS, Source: "sysfs", Target: "/sys", ReadOnly: true,
			Instead: []Mount{{Kind: Bind, Source: "/sys", Target: "/sys", ReadOnly: true}}},
		{Kind: FS, Source: "tmpfs", Target: "/sys/fs/cgroup", Data: "mode=755,size=1m"},
		{Kind: Text, Source: controllers, Target: "/sys/fs/cgroup/cgroup.controllers"},
		{Kind: Text, Source: "\n", Target: "/sys/fs/cgroup/cgroup.subtree_control"},
		{Kind: Text, Source: "\n", Target: "/sys/fs/cgroup/cgroup.procs"},
	}
}
