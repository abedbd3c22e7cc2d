//go:build linux

package probe

import (
	"os"
	"strings"
	"syscall"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/dock/outside"
)

// facts are the machine's settings that explain a failure.
type facts struct {
	rootless      bool
	usernsClone   string // kernel.unprivileged_userns_clone, "" if the kernel lacks it (Debian's has it)
	apparmor      string // kernel.apparmor_restrict_unprivileged_userns, "" if the kernel lacks it (Ubuntu's has it)
	maxNamespaces map[string]string
	seccomp       bool // a filter applies to this process, as in a container
}

// namespaceLimits are the names of limits below /proc/sys/user.
var namespaceLimits = []string{"max_user_namespaces", "max_net_namespaces", "max_mnt_namespaces", "max_pid_namespaces",
	"max_uts_namespaces", "max_ipc_namespaces"}

func readFacts() facts {
	f := facts{
		rootless:      outside.Rootless(),
		usernsClone:   read("/proc/sys/kernel/unprivileged_userns_clone"),
		apparmor:      read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
		maxNamespaces: map[string]string{},
	}
	for _, name := range namespaceLimits {
		f.maxNamespaces[name] = read("/proc/sys/user/" + name)
	}
	for _, line := range strings.Split(read("/proc/self/status"), "\n") {
		if mode, ok := strings.CutPrefix(line, "Seccomp:"); ok {
			f.seccomp = strings.TrimSpace(mode) == "2"
		}
	}
	return f
}

func read(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// diagnose finds the setting that causes a failure, checking the most specific first.
func diagnose(f failure, m facts) *dock.Problem {
	denied := f.Errno == syscall.EPERM || f.Errno == syscall.EACCES
	const userns = "ordinary users may not create user namespaces, which a dock without root needs"
	switch {
	case f.Errno == syscall.EOPNOTSUPP && (f.Stage == "bridge" || f.Stage == "veth"):
		return &dock.Problem{
			Setting: "kernel module " + f.Stage, Message: "the kernel can't make the links of the dock's network (" + f.Text +
				")", Fix: "sudo modprobe " + f.Stage,
		}
	case m.rootless && m.maxNamespaces["max_user_namespaces"] == "0":
		return sysctl("user.max_user_namespaces", "0", "15000", userns)
	case f.Stage == "clone" && f.Errno == syscall.ENOSPC:
		for _, name := range namespaceLimits {
			if m.maxNamespaces[name] == "0" {
				return sysctl("user."+name, "0", "15000", "this user may not create namespaces")
			}
		}
		return sysctl("user.max_user_namespaces", m.maxNamespaces["max_user_namespaces"], "15000",
			"this user has created as many namespaces as it may")
	case denied && m.rootless && m.usernsClone == "0":
		return sysctl("kernel.unprivileged_userns_clone", "0", "1", userns)
	case denied && m.rootless && m.apparmor == "1":
		return sysctl("kernel.apparmor_restrict_unprivileged_userns", "1", "0", userns)
	case denied && m.seccomp:
		return &dock.Problem{
			Setting: "seccomp filter of this container", Message: "the container that this runs in forbids new namespaces (" +
				f.Text + ")",
			Fix: "run the container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined, or as " +
				"--privileged",
		}
	case denied && f.Stage == "clone":
		return &dock.Problem{
			Setting: "right to create namespaces", Message: "the kernel forbids new namespaces (" + f.Text + ")",
			Fix: "look for a security module (SELinux, AppArmor) or a chroot that forbids it, or run as root",
		}
	}
	return &dock.Problem{
		Setting: "kernel", Message: "a dock's " + f.Stage + " does not work: " + f.Text,
		Fix: "report this with the output of `uname -a`",
	}
}

func sysctl(name, have, want, message string) *dock.Problem {
	return &dock.Problem{
		Setting: name, Have: have, Want: want, Message: message, Fix: "sudo sysctl -w " + name + "=" + want,
	}
}
