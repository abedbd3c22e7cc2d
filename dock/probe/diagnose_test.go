//go:build linux

package probe

import (
	"strings"
	"syscall"
	"testing"

	"github.com/capstan-dev/capstan/dock"
)

func TestDiagnose(t *testing.T) {
	for name, c := range map[string]struct {
		failure failure
		facts   facts
		setting string
		fix     string
	}{
		"Debian's switch is off": {
			failure{Stage: "clone", Errno: syscall.EPERM}, facts{rootless: true, usernsClone: "0"},
			"kernel.unprivileged_userns_clone", "sudo sysctl -w kernel.unprivileged_userns_clone=1",
		},
		"Ubuntu's AppArmor allows the namespace but gives it no rights": {
			failure{Stage: "mount", Errno: syscall.EACCES}, facts{rootless: true, apparmor: "1"},
			"kernel.apparmor_restrict_unprivileged_userns", "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
		},
		"no user namespaces at all": {
			failure{Stage: "clone", Errno: syscall.ENOSPC},
			facts{rootless: true, maxNamespaces: map[string]string{"max_user_namespaces": "0"}},
			"user.max_user_namespaces", "sudo sysctl -w user.max_user_namespaces=15000",
		},
		"no network namespaces, as root": {
			failure{Stage: "clone", Errno: syscall.ENOSPC},
			facts{maxNamespaces: map[string]string{"max_user_namespaces": "9", "max_net_namespaces": "0"}},
			"user.max_net_namespaces", "sudo sysctl -w user.max_net_namespaces=15000",
		},
		"all user namespaces in use": {
			failure{Stage: "clone", Errno: syscall.ENOSPC},
			facts{rootless: true, maxNamespaces: map[string]string{"max_user_namespaces": "9"}},
			"user.max_user_namespaces", "sudo sysctl -w user.max_user_namespaces=15000",
		},
		"a container's filter": {
			failure{Stage: "clone", Errno: syscall.EPERM}, facts{rootless: true, seccomp: true},
			"seccomp", "--security-opt seccomp=unconfined",
		},
		"another reason for a refusal": {
			failure{Stage: "clone", Errno: syscall.EPERM}, facts{rootless: true, apparmor: "0", usernsClone: "1"},
			"right to create namespaces", "SELinux",
		},
		"no bridge in the kernel": {failure{Stage: "bridge", Errno: syscall.EOPNOTSUPP}, facts{}, "kernel module bridge",
			"sudo modprobe bridge"},
		"no veth in the kernel": {failure{Stage: "veth", Errno: syscall.EOPNOTSUPP}, facts{rootless: true},
			"kernel module veth", "sudo modprobe veth"},
		"an unknown failure": {failure{Stage: "bridge", Errno: syscall.EIO, Text: "input/output error"}, facts{},
			"kernel", "uname -a"},
	} {
		p := diagnose(c.failure, c.facts)
		if !strings.Contains(p.Setting, c.setting) || !strings.Contains(p.Fix, c.fix) || !strings.Contains(p.Error(), c.fix) {
			t.Errorf("%s: got %+v", name, p)
		}
	}
}

func TestTooLow(t *testing.T) {
	good := dock.Limits{FreeDisk: 2 << 30, OpenFiles: 1 << 20, InotifyInstances: 128, InotifyUsed: 20}
	config := Config{Home: "/home/x", MinFree: 1 << 30, Instances: 48}
	for name, c := range map[string]struct {
		change func(*dock.Limits)
		want   []string
	}{
		"enough of everything": {func(*dock.Limits) {}, nil},
		"a full disk": {func(l *dock.Limits) { l.FreeDisk = 5 << 20 },
			[]string{"free space of the disk of /home/x is 5 MiB, 1024 MiB is needed"}},
		"inotify instances in use": {func(l *dock.Limits) { l.InotifyUsed = 100 },
			[]string{"128, with 100 in use, 148 is needed", "sudo sysctl -w fs.inotify.max_user_instances=1024"}},
		"few open files": {func(l *dock.Limits) { l.OpenFiles = 1024 }, []string{"4096 is needed", "limits.conf"}},
	} {
		l := good
		c.change(&l)
		problems := tooLow(l, config)
		if (len(problems) > 0) != (len(c.want) > 0) || len(problems) > 1 {
			t.Errorf("%s: %d problems", name, len(problems))
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(problems[0].Error(), want) {
				t.Errorf("%s: %q does not contain %q", name, problems[0], want)
			}
		}
	}
}
